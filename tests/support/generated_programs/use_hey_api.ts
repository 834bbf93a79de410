// Use the client of @hey-api/openapi-ts.
import { client } from "./hey/client.gen.js";
import { cancelPayment, createPayment, createRefund, getPayment } from "./hey/index.js";
import type { CollectData, WalletRpcAction } from "./hey/index.js";

declare const process: { env: Record<string, string> };
const { FLORIN_BASE_URL, FLORIN_PARTNER_KEY, FLORIN_MERCHANT_ID } = process.env;
client.setConfig({ baseUrl: FLORIN_BASE_URL!, auth: FLORIN_PARTNER_KEY! });
const headers = { "Merchant-Id": FLORIN_MERCHANT_ID! };

const body = {
  amount: { unit: "iso4217/USD", value: "1250" },
  checkout: { successUrl: "https://shop.example/ok", errorUrl: "https://shop.example/no" },
};
const { paymentId } = (await createPayment({ headers, body, throwOnError: true })).data;
const path = { paymentId };
const read = (await getPayment({ headers, path, throwOnError: true })).data;
const cancelled = (await cancelPayment({ headers, path, throwOnError: true })).data;
const refused = await createRefund({ headers, body: { paymentId } });
// types that generators have dropped before
const method = (action: WalletRpcAction): string => action.method;
const url = (form: CollectData): string => form.url;
console.log(read.checkout!.successUrl, cancelled.status, refused.error!.code, typeof method, typeof url);
