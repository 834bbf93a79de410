// A paid API: each call costs a cent, and Florin's facilitator settles it (x402).
import express from 'express';
import { HTTPFacilitatorClient } from '@x402/core/server';
import { ExactEvmScheme } from '@x402/evm/exact/server';
import { paymentMiddleware, x402ResourceServer } from '@x402/express';

const { FACILITATOR_KEY, FACILITATOR_URL, NETWORK, PAY_TO, PORT, TOKEN, ...env } = process.env;
const headers = { 'Api-Key': FACILITATOR_KEY };
const createAuthHeaders = async () => ({ supported: headers, verify: headers, settle: headers });
const florin = new HTTPFacilitatorClient({ url: FACILITATOR_URL, createAuthHeaders });
const server = new x402ResourceServer(florin).register(NETWORK, new ExactEvmScheme());
const extra = { name: env.TOKEN_NAME, version: env.TOKEN_VERSION };
const price = { amount: '10000', asset: TOKEN, extra };
const accepts = { scheme: 'exact', price, network: NETWORK, payTo: PAY_TO };
const app = express();
app.use(paymentMiddleware({ 'GET /': { accepts } }, server));
app.get('/', (_request, response) => response.json({ weather: 'sunny' }));
app.listen(PORT);
