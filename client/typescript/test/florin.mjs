// What every test of a running Florin needs. The program that starts Florin sets the variables.
import { createServer, request as send } from "node:http";
import { Florin, FlorinGateway } from "florin-client";

const env = process.env;
export const url = env.FLORIN_BASE_URL;

/** Return a client of the merchant's back end. */
export const openFlorin = (options = {}) =>
  new Florin({ url, apiKey: env.FLORIN_PARTNER_KEY, merchantId: env.FLORIN_MERCHANT_ID, ...options });

/** Return a client of a wallet. */
export const openGateway = (options = {}) =>
  new FlorinGateway({ url, appId: env.FLORIN_APP_ID, clientId: env.FLORIN_CLIENT_ID, ...options });

/** Start a server that ends with the test; return its address. */
export async function listen(t, handler) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** Return the whole body of a request or response. */
export async function readBody(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Send a received request to Florin; return the response with its body still unread. */
export function forward(request, body) {
  return new Promise((resolve, reject) => {
    const { method, headers } = request;
    const sent = send(url + request.url, { method, headers }, resolve);
    sent.on("error", reject);
    sent.end(body);
  });
}
