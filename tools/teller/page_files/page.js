"use strict";
// Everything shown is put into the page as text, never as markup: ids, descriptions and reasons are anyone's texts.

const main = document.getElementById("main");
const PAGE = 1000, FIRST = 200, SHOWN_AGAIN_MILLISECONDS = 5000;

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[content].flat().map((each) => (each instanceof Node ? each : String(each ?? ""))));
  return made;
}

// Characters that can't be seen, or that turn the direction of what follows, are shown by their code points.
const visible = (text) => String(text ?? "").replace(/[\p{C}\u2028\u2029]/gu, (one) => `<U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
const time = (iso) => (iso ? String(iso).slice(0, 19).replace("T", " ") : "");
const link = (text, ...way) => element("a", visible(text), { href: "#" + way.map(encodeURIComponent).join("/") });

function money(amount, places) {
  if (!/^-?\d+(\.\d+)?$/.test(amount ?? "")) return visible(amount);
  const [whole, fraction = ""] = amount.split(".");
  return places ? `${whole}.${fraction.padEnd(places, "0")}` : fraction ? `${whole}.${fraction}` : whole;
}

function table(heads, rows) {
  const cell = (tag) => (content, column) => element(tag, content, heads[column].startsWith("#") ? { class: "number" } : {});
  const head = element("tr", heads.map((name) => name.replace(/^#/, "")).map(cell("th")));
  const body = element("tbody", rows.map(({ cells, style = "" }) => element("tr", cells.map(cell("td")), { class: style })));
  return element("div", element("table", [element("thead", head), body]), { class: "scroll" });
}

const fields = (pairs) => element("dl", Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined && value !== "")
  .flatMap(([name, value]) => [element("dt", name.replaceAll("_", " ")), element("dd", value instanceof Node ? value : visible(typeof value === "object" ? JSON.stringify(value) : value))]));

const cards = (pairs) => element("div", pairs.map(([name, value]) => element("div", [name, element("b", value)], { class: "card" })), { class: "cards" });

async function ask(what, query = {}) {
  const response = await fetch(`/answers/${what}?${new URLSearchParams(query)}`);
  if (!response.ok) throw new Error(await response.text());
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error.reason);
  return answer;
}

// The stack now: queues, dead letters, jobs.
async function showStatus() {
  const found = await ask("status");
  document.title = found.stack;
  document.getElementById("stack").textContent = found.stack;
  const counts = (row) => Object.entries(row).filter(([, number]) => number).map(([name, number]) => `${number} ${name.replaceAll("_", " ")}`).join(", ") || "none";
  const queues = Object.entries(found.queues).map(([name, row]) => ({ cells: [name, counts(row)] }));
  const dead = Object.entries(found.dead_letters).map(([name, number]) => ({ cells: [name, number], style: number ? "rejected" : "" }));
  const jobs = Object.entries(found.jobs).map(([name, job]) => ({
    cells: [name, job.is_enabled ? "on" : "off", time(job.last_done?.finished_at) || "never", job.locks.map((lock) => lock.state).join(", ") || "free"],
  }));
  const became = Object.entries(found.became_in_the_last_hour ?? {}).map(([kind, row]) => ({ cells: [kind, counts(row)] }));
  const why = element("button", "Why are they dead?");
  why.onclick = () => run(showDeadLetters);
  return [
    element("h1", found.well ? "All is well" : "Not well"),
    element("ul", (found.not_well ?? []).map((trouble) => element("li", visible(trouble), { class: "trouble" }))),
    element("h2", "Queues"), table(["queue", "messages"], queues),
    element("h2", "Dead letters"), table(["queue", "#letters"], dead), element("p", why),
    element("h2", "Jobs"), table(["job", "schedule", "last done (UTC)", "lock"], jobs),
    element("h2", "In the last hour"), table(["messages", "became"], became),
  ];
}

async function showDeadLetters() {
  const { dead_letters: letters } = await ask("dead-letters");
  const rows = letters.map((row) => ({ cells: [row.queue, row.letters, visible(row.code), visible(row.reason), time(row.oldest), time(row.newest)] }));
  return [element("h1", "Dead letters by reason"), table(["queue", "#letters", "code", "reason", "oldest (UTC)", "newest (UTC)"], rows)];
}

// An account: its sums, its holds and limits, its balance over time, its entries.
async function showAccount(id) {
  const account = await ask("account", { account_id: id });
  const places = account.decimal_places ?? Math.max(...[account.balance, account.held, account.overdraft_limit ?? "0"].map((each) => each.split(".")[1]?.length ?? 0));
  const sum = (name) => [name.replace("_", " "), account[name] === null ? "none" : money(account[name], places)];
  const frozen = ["debits", "credits"].filter((name) => account.frozen[name]).join(" and ");
  const holds = account.holds.map((hold) => ({ cells: [visible(hold.hold_id), money(hold.remaining, places), time(hold.expires_at) || "never"] }));
  const shards = (account.pool?.used ?? []).map((shard) => ({ cells: [link(shard.account_id, "account", shard.account_id), money(shard.balance, places), shard.version] }));
  const limits = (account.limits ?? []).map((limit) => ({
    cells: [visible(limit.name), visible(limit.of), visible([limit.per, limit.time_zone].filter(Boolean).join(", ")),
      limit.number ?? money(limit.amount, places), limit.number ? limit.left : money(limit.left, places)],
  }));
  const heads = ["#version", "posted at (UTC)", "transaction", "type", "#amount", "#balance", "what"];
  const entries = [], list = element("tbody"), chart = element("div");
  const more = element("button", "Older entries"), failure = element("span", "", { class: "trouble" });
  const load = async (limit) => {
    const last = entries.length ? entries[0].account_version - 1 : account.version;
    const page = last ? await ask("statement", { account_id: id, to_version: account.pool ? "" : last, limit }) : { entries: [] };
    entries.unshift(...page.entries);
    list.append(...page.entries.toReversed().map((entry) => rowOf(entry, id, places)));
    chart.replaceChildren(balanceOverTime(entries, account, places));
    more.hidden = account.pool || !entries.length || entries[0].account_version === 1;
  };
  more.onclick = async () => {
    more.disabled = true;
    failure.textContent = await load(PAGE).then(() => "", (error) => ` ${visible(error.message)}`);
    more.disabled = false;
  };
  await load(FIRST);
  const head = element("tr", heads.map((name) => element("th", name.replace(/^#/, ""), name.startsWith("#") ? { class: "number" } : {})));
  return [
    element("h1", [visible(id), " ", element("span", `${visible(account.currency)}, ${visible(account.status)}${frozen && `, frozen for ${frozen}`}`, { class: "faint" })]),
    cards([...["balance", "held", "available", "overdraft_limit"].map(sum), ["version", account.version]]),
    chart,
    ...(shards.length ? [element("h2", `Shards: ${shards.length} of ${account.pool.shards} are used`), table(["shard", "#balance", "#version"], shards)] : []),
    ...(holds.length ? [element("h2", "Open holds"), table(["hold", "#remaining", "expires at (UTC)"], holds)] : []),
    ...(limits.length ? [element("h2", "Limits"), table(["limit", "of", "per", "#at most", "#left"], limits)] : []),
    element("h2", "Entries, the newest first"),
    element("div", element("table", [element("thead", head), list], { class: "entries" }), { class: "scroll" }), element("p", [more, failure]),
  ];
}

function rowOf(entry, account, places) {
  const { request } = entry, rejected = entry.status === "REJECTED";
  const number = (text) => element("td", text, { class: "number" });
  const about = request.hold_id ?? request.of_transaction_id;
  return element("tr", [
    number(entry.account_version), element("td", time(entry.posted_at), { class: "time" }),
    element("td", link(entry.transaction_id, "transaction", account, entry.transaction_id, entry.home_account_id)),
    element("td", [element("span", request.type ?? "transaction", { class: "time" }), about ? ` of ${visible(about)}` : ""]),
    number(rejected && request.amount ? `(${money(request.amount, places)})` : money(entry.amount, places)),
    number(money(entry.balance_after, places)),
    element("td", [entry.reason, request.description].filter(Boolean).map(visible).join(": ")),
  ], rejected ? { class: "rejected" } : {});
}

// Only the picture is drawn with floating point numbers. The figures below it are exact.
function balanceOverTime(entries, account, places) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  if (entries.length < 2) return element("p", "");
  const points = entries.map((entry) => [Date.parse(entry.posted_at), Number(entry.balance_after)]);
  const limit = Number(account.overdraft_limit), balances = points.map(([, balance]) => balance);
  const low = balances.reduce((a, b) => Math.min(a, b), 0), high = balances.reduce((a, b) => Math.max(a, b), 0);
  const bottom = limit >= low - (high - low) ? Math.min(low, limit) : low;
  const [begin, end] = [points[0][0], points.at(-1)[0]];
  const x = (at) => (end > begin ? (at - begin) / (end - begin) : 0.5) * 1000;
  const y = (balance) => 100 - (100 * (balance - bottom)) / (high - bottom || 1);
  svg.setAttribute("viewBox", "0 -2 1000 104");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `the balance from ${time(entries[0].posted_at)} to ${time(entries.at(-1).posted_at)}`);
  const draw = (name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    svg.append(made);
  };
  draw("line", { x1: 0, x2: 1000, y1: y(0), y2: y(0) });
  if (limit < 0 && limit >= bottom) draw("line", { x1: 0, x2: 1000, y1: y(limit), y2: y(limit), class: "limit" });
  draw("path", { d: points.map(([at, balance], number) => (number ? `H${x(at)}V${y(balance)}` : `M${x(at)},${y(balance)}`)).join("") });
  const caption = `${time(entries[0].posted_at)} to ${time(entries.at(-1).posted_at)} UTC, versions ${entries[0].account_version} to ${entries.at(-1).account_version}`;
  return element("figure", [svg, element("figcaption", caption, { class: "faint" })], { style: "" });
}

// A transaction: its message, its decision, its entry on each side, its event, its reversals.
async function showTransaction(account, id, home = account) {
  const { sides } = await ask("transaction", { account_id: account, transaction_id: id, home });
  const request = sides[0].entry?.request;
  return [
    element("h1", [visible(id), " ", element("span", sides[0].state, { class: "faint" })]),
    ...(request ? [element("h2", "Message"), fields(request)] : [element("p", "The account has no entry of it.")]),
    ...sides.flatMap(sideOf),
  ];
}

function sideOf(side) {
  const { request, ...entry } = side.entry ?? {};
  const event = side.entry ? `${side.account_id}#${entry.account_version}` : "";
  const letters = (side.dead_letters ?? []).flatMap((letter) => [element("h2", "Dead letter"), fields(letter)]);
  return [
    element("h2", ["On ", link(side.account_id, "account", side.account_id)]),
    fields({ ...entry, event_id: event, reversed: side.reversed, hold: side.hold, refusal: side.refusal }),
    ...letters,
  ];
}

function showFailure(error) {
  main.replaceChildren(element("p", visible(error.message), { class: "trouble" }));
}

let shown = 0;
async function run(show, ...given) {
  const number = ++shown;
  try {
    const content = await show(...given);
    if (number === shown) main.replaceChildren(...content);
  } catch (error) {
    if (number === shown) showFailure(error);
  }
  if (show === showStatus) setTimeout(() => number === shown && run(showStatus), SHOWN_AGAIN_MILLISECONDS);
}

function route() {
  const [what, ...given] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (what === "account") return run(showAccount, given[0]);
  if (what === "transaction") return run(showTransaction, ...given);
  return run(showStatus);
}

document.getElementById("find").onsubmit = (event) => {
  event.preventDefault();
  const [account, transaction] = ["account", "transaction"].map((name) => document.getElementById(name).value);
  location.hash = (transaction ? ["transaction", account, transaction] : ["account", account]).map(encodeURIComponent).join("/");
};
addEventListener("hashchange", route);
route();
