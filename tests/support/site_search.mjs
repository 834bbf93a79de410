// Search a built site of the documents with the code that its pages run: the worker of the theme.
// Arguments: the folder of the site, and queries. Prints one JSON line: the hits of each query.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const workers = join(site, "assets/javascripts/workers");
const [name] = readdirSync(workers).filter((file) => /^search\..*\.min\.js$/.test(file));
const SETUP = 0, QUERY = 2, RESULT = 3;

const handlers = [];
let answer;
const scope = {
  console,
  addEventListener: (type, handler) => type === "message" && handlers.push(handler),
  postMessage: (message) => answer(message),
};
scope.self = scope;
vm.runInNewContext(readFileSync(join(workers, name), "utf8"), scope);

const send = (type, data) =>
  new Promise((resolve) => {
    answer = resolve;
    handlers.forEach((handler) => handler({ data: { type, data } }));
  });

const index = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));
// as the pages set it up
await send(SETUP, { ...index, options: { suggest: false } });
const hits = {};
for (const query of queries) {
  const { type, data } = await send(QUERY, query);
  if (type !== RESULT) throw new Error(`unexpected answer ${type}`);
  hits[query] = data.items.map(([first]) => first.location.split("#")[0]);
}
console.log(JSON.stringify(hits));
