// Paying with a wallet of this browser: choose the wallet and an option, approve in the wallet, and
// submit the result. Every error leads to a step from which the buyer can continue.

import * as api from "./api.js";
import * as evm from "./evm.js";
import { duration, noteSent, pageData, translate } from "./page.js";
import * as solana from "./solana.js";

/**
 * @typedef {import("./evm.js").Wallet} Wallet
 * @typedef {import("./api.js").Option} Option
 * @typedef {import("./page.js").State} State
 */

const place = /** @type {HTMLElement} */ (document.getElementById("wallets"));
const step = /** @type {HTMLElement} */ (document.getElementById("step"));
/** @type {Wallet[]} */
const wallets = [];
// the first and the longest delay between two checks whether the form was sent
const DETAILS_MS = 3000;
const DETAILS_MS_MAX = 15_000;
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
function button(text, pressed, style = "") {
  const node = /** @type {HTMLButtonElement} */ (element("button", text, style));
  node.type = "button";
  node.addEventListener("click", pressed);
  return node;
}

/** @param {string} text @param {...HTMLElement} parts */
function show(text, ...parts) {
  steps += 1;
  step.textContent = text;
  const list = element("ul", "", "choices");
  list.append(...parts.map((part) => {
    const item = document.createElement("li");
    item.append(part);
    return item;
  }));
  place.replaceChildren(...(parts.length > 0 ? [list] : []));
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
  if (wallets.length === 0) return show(translate("none"));
  return show(translate("pick"), ...wallets.map((wallet) => {
    const pressed = button(wallet.name || translate("unnamed"), () => void connect(wallet));
    // the page's policy allows only inline pictures of wallets
    if (/^data:image\/(png|svg\+xml|webp|jpeg|gif)[;,]/.test(wallet.icon)) {
      const icon = document.createElement("img");
      icon.src = wallet.icon;
      icon.alt = "";
      icon.width = icon.height = 24;
      pressed.prepend(icon);
    }
    return pressed;
  }));
}

/** @param {Wallet} wallet @param {string} [before] why the step is repeated */
async function connect(wallet, before = "") {
  working = true;
  show(before || translate("answer", { wallet: wallet.name || translate("unnamed") }));
  try {
    const accounts = await wallet.accounts();
    if (accounts.length === 0) throw new evm.WalletError("no_accounts");
    unwatch?.();
    // the account can change while the buyer views options, not while the wallet signs
    unwatch = wallet.watch(() => {
      if (!working) void connect(wallet, translate("account_changed"));
    });
    if (!before) show(translate("loading"));
    const options = await api.options(accounts);
    if (options.length === 0) throw new evm.WalletError("no_options");
    const facts = await Promise.all(options.map((option) => wallet.facts(option).catch(() => ({}))));
    working = false;
    offer(wallet, options, facts, before);
  } catch (error) {
    working = false;
    show(reason(error), button(translate("again"), () => void connect(wallet), "main-action"), other());
  }
}

const other = () => button(translate("other"), choose);

/** @param {Wallet} wallet @param {Option[]} options @param {import("./evm.js").Facts[]} facts @param {string} before */
function offer(wallet, options, facts, before) {
  show(before || translate("choose"), ...options.map((option, at) => {
    const card = element("div", "", "choice");
    const address = option.account.split(":")[2] ?? "";
    const short = `${address.slice(0, 6)}…${address.slice(-4)}`;
    card.append(
      button(translate("pay", { amount: amount(option) }), () => void pay(wallet, option), "main-action"),
      element("p", `${option.amount.display.networkName ?? ""} · ${translate("from", { account: short })}`),
      ...costs(option, facts[at] ?? {}).map((line) => element("p", line, "quiet")),
    );
    return card;
  }), other());
}

/** Returns lines about the fee, balance and duration of an option. @param {Option} option @param {import("./evm.js").Facts} facts */
function costs(option, facts) {
  const lines = [];
  if (facts.balance !== undefined) lines.push(translate("balance", { amount: amount(option, facts.balance) }));
  const methods = option.actions.map((action) => action.data.method);
  // on EVM chains a build resolves to a transaction that the wallet sends
  const built = option.account.startsWith("eip155:") && option.actions.some((action) => action.type === "build");
  const sends = built || methods.includes("eth_sendTransaction");
  if (facts.fee !== undefined) {
    const chain = pageData.chains.find(({ id }) => option.account.startsWith(`${id}:`));
    lines.push(translate("fee_about", { amount: `${number(facts.fee, 18)} ${chain?.coin ?? ""}` }));
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
  const form = /** @type {HTMLAnchorElement} */ (element("a", translate("details_open"), "button main-action"));
  form.href = url;
  form.target = "_blank";
  form.rel = "noopener noreferrer";
  form.addEventListener("click", () => {
    step.textContent = translate("details_wait");
  });
  show(translate("details", { merchant: pageData.merchant }), form, button(translate("details_done"), () => void checkForm(true)), other());
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
  working = true;
  const prompt = translate("answer", { wallet: wallet.name || translate("unnamed") });
  show(onSolana(option) ? `${prompt} ${translate("soon")}` : prompt);
  /** @type {string[]} */
  const outputs = [];
  let sent = false;
  let sends = false;
  try {
    for (const action of await api.actions(option)) {
      await wallet.ready(option);
      sends = action.data.method === "eth_sendTransaction";
      outputs.push(await wallet.run(action));
      noteSent();
      sent ||= sends;
      sends = false;
    }
  } catch (error) {
    working = false;
    // a wallet that fails while sending may have sent the transaction
    if (sends && !(error instanceof evm.WalletError)) noteSent();
    const approved = sent ? ` ${translate("approved")}` : "";
    show(reason(error) + approved, button(translate("again"), () => void connect(wallet), "main-action"), other());
    return;
  }
  await handIn(wallet, option, outputs, sent);
}

/** @param {Wallet} wallet @param {Option} option @param {string[]} outputs @param {boolean} sent */
async function handIn(wallet, option, outputs, sent) {
  working = true;
  show(translate("handing"));
  try {
    const state = await api.confirm(option, outputs);
    unwatch?.();
    show("");
    showState(state);
  } catch (error) {
    working = false;
    const lost = error instanceof api.ApiError && error.code === "unreachable";
    const again = lost || sent
      ? button(translate("again"), () => void handIn(wallet, option, outputs, sent), "main-action")
      : button(translate("again"), () => void connect(wallet), "main-action");
    show(reason(error, sent, option), again, ...(sent ? [] : [other()]));
  }
}

/** Finds the wallets, and lets the buyer choose.
 * @param {(state: State) => void} apply shows the payment's state after it changed */
export function begin(apply) {
  showState = apply;
  const add = (/** @type {Wallet} */ wallet) => {
    wallets.push(wallet);
    if (!working && place.querySelector(".choice") === null) choose();
  };
  choose();
  evm.discover(add);
  solana.discover(add);
  step.focus();
}
