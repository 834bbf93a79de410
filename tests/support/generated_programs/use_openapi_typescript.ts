// Use the types of openapi-typescript with their own client.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { env: Record<string, string> };
const { FLORIN_BASE_URL, FLORIN_PARTNER_KEY, FLORIN_MERCHANT_ID } = process.env;
const client = createClient<paths>({ baseUrl: FLORIN_BASE_URL!, headers: { "Api-Key": FLORIN_PARTNER_KEY! } });
const header = { "Merchant-Id": FLORIN_MERCHANT_ID! };

const body: components["schemas"]["CreatePaymentRequest"] = {
  amount: { unit: "iso4217/USD", value: "1250" },
  checkout: { successUrl: "https://shop.example/ok", errorUrl: "https://shop.example/no" },
};
const created = await client.POST("/v1/payments", { params: { header }, body });
const paymentId: string = created.data!.paymentId;
const params = { path: { paymentId }, header };
const read = await client.GET("/v1/payments/{paymentId}", { params });
const successUrl: string = read.data!.checkout!.successUrl;
const cancelled = await client.POST("/v1/payments/{paymentId}/cancel", { params });
const refused = await client.POST("/v1/refunds", { params: { header }, body: { paymentId } });
const code: "payment_not_succeeded" | (string & {}) | undefined = refused.error?.code;
console.log(successUrl, cancelled.data!.status, code);
