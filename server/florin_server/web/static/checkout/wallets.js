// Paying with a wallet of this browser: choose the wallet and an option, approve in the wallet, and
// submit the result. Every error leads to a step from which the buyer can continue.

import * as api from "./api.js";
import { findBundle, isBundle, keepBundle } from "./bundles.js";
import * as evm from "./evm.js";
import { duration, noteSent, pageData, translate } from "./page.js";
import * as solana from "./solana.js";

/**
 * @typedef {import("./evm.js").Wallet} Wallet
 * @typedef {import("./api.js").Option} Option
 * @typedef {import("./page.js").State} State
 */

/** @param {string} id */
const find = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const here = find("here");
const place = find("wallets");
const step = find("step");
const asked = find("asked");
/** @type {Wallet[]} */
const wallets = [];
// the first and the longest delay between two checks whether the form was sent
const DETAILS_MS = 3000;
const DETAILS_MS_MAX = 15_000;
// the delay between two questions about a bundle
const BUNDLE_MS = 1000;
// the texts of errors; the server's own messages are for programs
const REFUSALS = new Map([
  ["ic_required", "details_missing"],
  ["payment_not_found", "gone"],
  ["invalid_state", "gone"],
  ["payment_expired", "too_late"],
  ["quote_expired", "price_over"],
  ["sanctioned_user", "blocked"],
  ["rate_limited", "busy"],
  ["invalid_params", "wrong_answer"],
  ["unreachable", "unreachable"],
]);
/** @type {(() => void) | undefined} */
let unwatch;
/** @type {(state: State) => void} */
let showState;
let working = false;
// the wallets are listed, and not a step after that
let picking = false;
// counts the steps shown: a waiting function stops when the buyer moved on
let steps = 0;

/** @param {string} tag @param {string} text @param {string} [style] */
function element(tag, text, style = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  if (style) node.className = style;
  return node;
}

/** @param {string} text @param {() => void} pressed @param {string} [style] */
function button(text, pressed, style = "button wide") {
  const node = /** @type {HTMLButtonElement} */ (element("button", text, style));
  node.type = "button";
  node.addEventListener("click", pressed);
  return node;
}

/** Shows a step. @param {"lists" | "asks" | "fails"} mode @param {string} text @param {...Node} parts */
function show(mode, text, ...parts) {
  steps += 1;
  picking = false;
  here.dataset.mode = mode;
  asked.hidden = mode !== "asks";
  step.textContent = text;
  place.replaceChildren(...parts);
}

/** Returns the picture that a wallet announces, or its initial. @param {Wallet} wallet */
function tile(wallet) {
  const node = element("span", "", "tile soft");
  node.setAttribute("aria-hidden", "true");
  // the page's policy allows only inline pictures of wallets
  if (/^data:image\/(png|svg\+xml|webp|jpeg|gif)[;,]/.test(wallet.icon)) {
    const icon = document.createElement("img");
    icon.src = wallet.icon;
    icon.alt = "";
    node.append(icon);
  } else {
    node.textContent = nameOf(wallet).slice(0, 1);
  }
  return node;
}

/** @param {Wallet} wallet */
const nameOf = (wallet) => wallet.name || translate("unnamed");

/** Locks the page while a wallet is asked. @param {Wallet} wallet @param {string} text @param {...Node} parts */
function ask(wallet, text, ...parts) {
  working = true;
  show("asks", text, ...parts);
  asked.replaceChildren(tile(wallet));
}

/** Returns a list of names and values. @param {...[string, string]} rows */
function facts(...rows) {
  const list = element("dl", "", "facts");
  list.append(...rows.map(([name, value]) => {
    const row = element("div", "");
    const text = element("dd", "");
    text.append(element("bdi", value));
    row.append(element("dt", name), text);
    return row;
  }));
  return list;
}

/** Returns an amount to its last digit that is not zero. @param {bigint} value @param {number} decimals */
function number(value, decimals) {
  const digits = value.toString().padStart(decimals + 1, "0");
  const whole = BigInt(digits.slice(0, digits.length - decimals));
  const part = decimals > 0 ? digits.slice(-decimals).replace(/0+$/, "") : "";
  const format = new Intl.NumberFormat(pageData.language, { minimumFractionDigits: 1, useGrouping: false });
  const point = format.formatToParts(1.5).find((token) => token.type === "decimal")?.value ?? ".";
  const grouped = new Intl.NumberFormat(pageData.language).format(whole);
  return part === "" ? grouped : `${grouped}${point}${part.padEnd(2, "0")}`;
}

/** @param {Option} option @param {bigint} [value] */
function amount(option, value = BigInt(option.amount.value)) {
  const { decimals, assetSymbol } = option.amount.display;
  return `${number(value, decimals)} ${assetSymbol}`;
}

/** @param {Option} option */
const onSolana = (option) => option.account.startsWith("solana:");

/** @param {unknown} error @param {boolean} [sent] @param {Option} [option] what the wallet signed for */
function reason(error, sent = false, option) {
  if (error instanceof evm.WalletError) return translate(error.key, error.values);
  if (error instanceof api.ApiError) {
    // on Solana the transaction expired; the price may be unchanged
    if (error.code === "quote_expired" && option !== undefined && onSolana(option)) return translate("lapsed");
    // an error does not undo a transaction that the wallet sent
    if (sent && error.code !== "unreachable") return translate("sent_unclear");
    return translate(REFUSALS.get(error.reason) ?? REFUSALS.get(error.code) ?? "refused");
  }
  return translate("wallet_failed", { reason: String(error).slice(0, 200) });
}

/** Lists the wallets; wallets found later are added. */
function choose() {
  working = false;
  unwatch?.();
  if (wallets.length === 0) {
    const downloads = /** @type {HTMLTemplateElement} */ (find("downloads")).content.cloneNode(true);
    show("lists", translate("none"), button(translate("look"), look, "button primary big wide"), downloads, ways());
  } else {
    show("lists", translate("pick"), ...wallets.map((wallet) => {
      const pressed = button("", () => void connect(wallet), "button row");
      pressed.append(tile(wallet), element("bdi", nameOf(wallet)));
      return pressed;
    }), ways());
  }
  picking = true;
}

/** Looks for wallets that were installed or unlocked meanwhile. */
function look() {
  evm.discover(add);
  solana.discover(add);
  if (wallets.length === 0) choose();
}

/** Returns to the ways to pay. */
const ways = () => button(translate("ways"), () => {
  working = false;
  unwatch?.();
  show("lists", "");
  here.hidden = true;
  find("ways").hidden = false;
  find("choose").focus();
}, "button bare wide");

/** @param {Wallet} wallet @param {string} [before] why the step is repeated */
async function connect(wallet, before = "") {
  ask(wallet, before || translate("answer", { wallet: nameOf(wallet) }), other());
  let mine = steps;
  try {
    const accounts = await wallet.accounts();
    if (steps !== mine) return;
    if (accounts.length === 0) throw new evm.WalletError("no_accounts");
    unwatch?.();
    // the account can change while the buyer views options, not while the wallet signs
    unwatch = wallet.watch(() => {
      if (!working) void connect(wallet, translate("account_changed"));
    });
    if (!before) ask(wallet, translate("loading"), other());
    mine = steps;
    const options = await api.options(accounts);
    if (steps !== mine) return;
    if (options.length === 0) throw new evm.WalletError("no_options");
    const known = await Promise.all(options.map((option) => wallet.facts(option).catch(() => ({}))));
    if (steps !== mine) return;
    working = false;
    offer(wallet, options, known, before);
  } catch (error) {
    if (steps !== mine) return;
    fail(wallet, reason(error));
  }
}

/** Shows what went wrong, and how to go on. @param {Wallet} wallet @param {string} text */
function fail(wallet, text) {
  working = false;
  show("fails", text, button(translate("again"), () => void connect(wallet), "button primary big wide"), other());
}

const other = () => button(translate("other"), choose);

/** @param {Wallet} wallet @param {Option[]} options @param {import("./evm.js").Facts[]} known @param {string} before */
function offer(wallet, options, known, before) {
  let chosen = /** @type {Option} */ (options[0]);
  const account = element("div", "", "account");
  const who = element("p", "");
  const address = chosen.account.split(":")[2] ?? "";
  who.append(element("b", nameOf(wallet)), document.createElement("br"), element("span", `${address.slice(0, 6)}…${address.slice(-4)}`, "small quiet mono"));
  account.append(tile(wallet), who, button(translate("other"), choose, "button bare"));
  const submit = button("", () => void pay(wallet, chosen), "button primary big wide");
  /** @param {Option} option */
  const take = (option) => {
    chosen = option;
    submit.textContent = translate("pay", { amount: amount(option) });
  };
  const list = element("fieldset", "", "options");
  list.setAttribute("aria-labelledby", "step");
  list.append(...options.map((option, at) => card(option, known[at] ?? {}, at === 0, take)));
  const bar = element("div", "", "paybar");
  bar.append(submit, element("p", translate("safe"), "assure"));
  take(chosen);
  show("lists", before || translate("choose"), account, list, bar);
}

/** Returns an option as a radio button. @param {Option} option @param {import("./evm.js").Facts} known @param {boolean} first @param {(option: Option) => void} take */
function card(option, known, first, take) {
  const label = element("label", "", "option");
  const input = document.createElement("input");
  input.type = "radio";
  input.name = "option";
  input.checked = first;
  input.addEventListener("change", () => take(option));
  const { assetSymbol, networkName } = option.amount.display;
  const name = element("span", "");
  name.append(element("b", assetSymbol), " ", element("span", networkName ?? "", "quiet"));
  // the picture of the asset is in the list of what is accepted
  const listed = [...document.querySelectorAll(".offer")].find((item) => item instanceof HTMLElement && item.dataset.unit === option.amount.unit);
  const coin = listed?.querySelector(".coin")?.cloneNode(true) ?? element("span", assetSymbol.slice(0, 1), "tile soft");
  label.append(input, coin, name, element("bdi", amount(option), "end"), element("span", costs(option, known).join(" · "), "sub"));
  return label;
}

/** Returns the balance, fee and duration of an option. @param {Option} option @param {import("./evm.js").Facts} known */
function costs(option, known) {
  const lines = [];
  if (known.balance !== undefined) lines.push(translate("balance", { amount: amount(option, known.balance) }));
  const methods = option.actions.map((action) => action.data.method);
  // on EVM chains a build resolves to a transaction that the wallet sends
  const built = option.account.startsWith("eip155:") && option.actions.some((action) => action.type === "build");
  const sends = built || methods.includes("eth_sendTransaction");
  if (known.fee !== undefined) {
    const chain = pageData.chains.find(({ id }) => option.account.startsWith(`${id}:`));
    lines.push(translate("fee_about", { amount: `${number(known.fee, 18)} ${chain?.coin ?? ""}` }));
  } else {
    lines.push(translate(sends ? "fee" : "no_fee"));
  }
  if (methods.length > 1) lines.push(translate("approve"));
  lines.push(translate("eta", { time: duration(option.etaS) }));
  return lines;
}

/** @param {Wallet} wallet @param {Option} option */
async function pay(wallet, option) {
  if (working) return;
  working = true;
  if (option.collectData !== null) return details(wallet, option, option.collectData.url);
  await carryOut(wallet, option);
}

/** Shows the link to the form, and continues automatically once the form was sent.
 * @param {Wallet} wallet @param {Option} option @param {string} url */
function details(wallet, option, url) {
  const form = /** @type {HTMLAnchorElement} */ (element("a", translate("details_open"), "button primary big wide"));
  form.href = url;
  form.target = "_blank";
  form.rel = "noopener noreferrer";
  form.addEventListener("click", () => {
    step.textContent = translate("details_wait");
  });
  show("lists", translate("details", { merchant: pageData.merchant }), form, button(translate("details_done"), () => void checkForm(true)), other());
  const mine = steps;
  let asking = false;
  let wait = DETAILS_MS;

  /** Checks whether the form was sent. @param {boolean} pressed */
  async function checkForm(pressed) {
    if (asking || steps !== mine) return;
    asking = true;
    try {
      const options = await api.options([option.account]);
      if (steps !== mine) return;
      const fresh = options.find((offered) => offered.amount.unit === option.amount.unit);
      if (fresh === undefined || fresh.collectData !== null) {
        if (pressed) step.textContent = translate("details_missing");
      } else if (fresh.amount.value === option.amount.value) {
        await carryOut(wallet, fresh);
      } else {
        await connect(wallet, translate("price_over"));
      }
    } catch (error) {
      if (pressed && steps === mine) step.textContent = reason(error);
    } finally {
      asking = false;
    }
  }

  function back() {
    if (steps !== mine) document.removeEventListener("visibilitychange", back);
    else if (!document.hidden) void checkForm(false);
  }

  async function waiting() {
    if (steps !== mine) return;
    // on a hidden page a wallet must not prompt the buyer
    if (!document.hidden) await checkForm(false);
    wait = Math.min(wait * 1.25, DETAILS_MS_MAX);
    setTimeout(waiting, wait);
  }

  document.addEventListener("visibilitychange", back);
  setTimeout(waiting, wait);
}

/** @param {Wallet} wallet @param {Option} option */
async function carryOut(wallet, option) {
  const text = translate("confirm", { wallet: nameOf(wallet) });
  const rows = facts([translate("amount"), amount(option)], [translate("network"), option.amount.display.networkName ?? ""]);
  // the wallet cannot be stopped: what it signs after a cancel is dropped, what it sends is kept
  ask(wallet, text, rows, button(translate("cancel"), () => void connect(wallet)));
  step.append(" ", element("span", translate(onSolana(option) ? "soon" : "confirm_text"), "hint"));
  const mine = steps;
  /** @type {string[]} */
  const outputs = [];
  let sent = false;
  let sends = false;
  try {
    const actions = await api.actions(option);
    if (steps !== mine) return;
    const bundle = findBundle(option.id) ?? (await sendTogether(wallet, option, actions, () => steps === mine));
    if (bundle !== undefined) {
      noteSent();
      if (steps === mine) await follow(wallet, option, actions, bundle);
      return;
    }
    for (const action of actions) {
      if (steps !== mine) return;
      await wallet.ready(option);
      if (steps !== mine) return;
      sends = action.data.method === "eth_sendTransaction";
      outputs.push(await wallet.run(action));
      if (steps !== mine && !sends) return;
      noteSent();
      sent ||= sends;
      sends = false;
    }
  } catch (error) {
    // a wallet that fails while sending may have sent the transaction
    if (sends && !(error instanceof evm.WalletError)) noteSent();
    if (steps !== mine) return;
    fail(wallet, reason(error) + (sent ? ` ${translate("approved")}` : ""));
    return;
  }
  await handIn(wallet, option, outputs, sent);
}

/** Sends all actions with one approval and returns the bundle's id; undefined if each needs its own.
 * @param {Wallet} wallet @param {Option} option @param {api.Action[]} actions @param {() => boolean} isWaiting */
async function sendTogether(wallet, option, actions, isWaiting) {
  if (!isBundle(actions) || wallet.canBundle === undefined) return undefined;
  await wallet.ready(option);
  if (!(await wallet.canBundle(option)) || !isWaiting()) return undefined;
  const id = await wallet.sendBundle?.(option, actions);
  // kept also if the buyer moved on meanwhile
  if (id !== undefined) keepBundle(option.id, id);
  return id;
}

/** Waits for a bundle, and submits its transaction. From here on the wallet is asked for nothing else.
 * @param {Wallet} wallet @param {Option} option @param {api.Action[]} actions @param {string} id */
async function follow(wallet, option, actions, id) {
  ask(wallet, translate("sent"));
  const mine = steps;
  for (;;) {
    const outcome = await wallet.readBundle?.(id);
    if (steps !== mine) return;
    if (typeof outcome === "object") {
      await handIn(wallet, option, actions.map(() => outcome.hash), true);
      return;
    }
    if (outcome === "failed") {
      keepBundle(option.id, undefined);
      fail(wallet, translate("undone"));
      return;
    }
    if (outcome === "unknown") {
      working = false;
      const look = () => void follow(wallet, option, actions, id);
      show("fails", translate("sent_unclear"), button(translate("look"), look, "button primary big wide"));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, BUNDLE_MS));
  }
}

/** @param {Wallet} wallet @param {Option} option @param {string[]} outputs @param {boolean} sent */
async function handIn(wallet, option, outputs, sent) {
  ask(wallet, translate("handing"));
  try {
    const state = await api.confirm(option, outputs);
    unwatch?.();
    show("lists", "");
    showState(state);
  } catch (error) {
    working = false;
    // the bundle is in a block and did not pay: a page that is loaded again may send another one
    if (error instanceof api.ApiError && error.reason === "transaction_mismatch") keepBundle(option.id, undefined);
    const lost = error instanceof api.ApiError && error.code === "unreachable";
    const again = lost || sent ? () => void handIn(wallet, option, outputs, sent) : () => void connect(wallet);
    const primary = button(translate("again"), again, "button primary big wide");
    show("fails", reason(error, sent, option), primary, ...(sent ? [] : [other()]));
  }
}

/** @param {Wallet} wallet */
function add(wallet) {
  wallets.push(wallet);
  if (picking) choose();
}

/** Finds the wallets, and lets the buyer choose.
 * @param {(state: State) => void} apply shows the payment's state after it changed */
export function begin(apply) {
  showState = apply;
  find("ways").hidden = true;
  here.hidden = false;
  choose();
  if (wallets.length === 0) look();
  step.focus();
}
