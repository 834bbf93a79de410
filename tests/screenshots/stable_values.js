// Replaces values that differ on each load of a page by constant ones.
([host, [box, drawing], ids, lists]) => {
  const calm = (text, named) => text
    .replace(/https?:\/\/(127\.0\.0\.1|localhost)(:\d+)?/g, host)
    // ids, whole and shortened; then addresses and hashes; then options, and requests
    .replace(/\b([a-z]+_)([0-9a-zA-Z]{12,}|[0-9a-zA-Z]{3,8}…[0-9a-zA-Z]{4,6})(?![0-9a-zA-Z_])/g, named)
    .replace(/\b(0x|eip155:\d+)((?:[0-9a-fA-F]{4,})?(?:…[0-9a-fA-F]{4,6})?)(?![0-9a-zA-Z])/g, named)
    .replace(/\b()([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/g, named)
    .replace(/\b()([0-9a-f]{24})\b/g, named)
    // ids of signing keys, which are hashes in base64url
    .replace(/(?<![\w-])[\w-]{43}(?![\w-])/g, (key) => named("", "", key.replaceAll("-", "_")))
    .replace(/\b(whpk_)([0-9a-zA-Z+/]{3,}…[0-9a-zA-Z+/]{3,6})(?==)/g, named)
    // ages that pages count on meanwhile
    .replace(/^(now|\d+\s(?:s|min) ago)$/, "9 s ago")
    // from a buyer's confirmation to the final block
    .replace(/^Paid \d+\.\d(?=\ss after)/, "Paid 0.0")
    // coins less gas
    .replace(/\.(?!\d{3}0{15})\d{18}(?=\s)/g, ".004917866000000000")
    .replace(/\.\d{5,17}(?=\s*tETH)/g, ".004917866")
    // what the coin is enough for, by the gas used so far
    .replace(/^about [\d,]+(?=\s(payments|payouts))/, "about 9,870,000")
    .replace(/Florin \d+\.\d+\S*[0-9a-z]/g, "Florin 1.0.0");

  const textsOf = function* (within) {
    const texts = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) yield texts.currentNode;
  };
  // a page that was calmed already is not changed again
  const { known, order, done } = (window.calmed ??= { known: new Map(), order: new Map(), done: new WeakMap() });
  // of the same length, and different for each id
  const alike = (prefix, body) => {
    const number = known.get(body) ?? known.set(body, known.size + 1).size;
    const digit = (place) => (((place + 3) * (number * 7 + 5) + (number >> 4)) % 16).toString(16);
    return prefix + Array.from(body, (sign, place) => ("…-".includes(sign) ? sign : digit(place))).join("");
  };
  const named = (_, prefix, body) => alike(prefix, body);

  // ids of a list that has its own order are numbered first: they order the rows that name them
  const numbered = (_, prefix, body) => {
    const replacement = alike("", body);
    for (const id of [body, replacement]) order.set(id, known.get(body));
    return replacement;
  };
  for (const list of document.querySelectorAll("[aria-label=Partners]")) {
    for (const text of textsOf(list)) if (!done.has(text)) calm(text.nodeValue, numbered);
  }

  // lists in the order of such ids are sorted by their other texts
  const key = (one) => {
    const said = Array.from(textsOf(one)).filter((text) => !text.parentElement.matches(ids));
    return calm(said.map((text) => text.nodeValue).join(" "), (_, prefix, body) => order.get(body) ?? "");
  };
  for (const list of lists) {
    const found = Array.from(document.querySelectorAll(list), (one) => ({ one, key: key(one) }));
    const places = found.map(({ one }) => {
      const place = document.createComment("");
      one.replaceWith(place);
      return place;
    });
    found.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key)));
    found.forEach(({ one }, at) => places[at].replaceWith(one));
  }

  for (const text of textsOf(document.body)) {
    const around = text.parentElement;
    if (around.matches("script, style") || done.get(text) === text.nodeValue) continue;
    const replacement = around.matches(ids) ? alike("", text.nodeValue) : calm(text.nodeValue, named);
    if (replacement !== text.nodeValue) text.nodeValue = replacement;
    done.set(text, replacement);
  }
  for (const field of document.querySelectorAll("input:not([type])")) {
    if (done.get(field) === field.value) continue;
    field.value = calm(field.value, named);
    done.set(field, field.value);
  }
  for (const drawn of document.querySelectorAll(".qr svg")) {
    drawn.setAttribute("viewBox", box);
    drawn.querySelector("path").setAttribute("d", drawing);
  }
}
