/** Return the Web Crypto API: it is global everywhere except in Node 18. */
export async function getCrypto(): Promise<Crypto> {
  if (globalThis.crypto !== undefined) return globalThis.crypto;
  // a variable, so that bundlers for browsers do not look for the module
  const moduleName = "node:crypto";
  const { webcrypto } = (await import(moduleName)) as { webcrypto: Crypto };
  return webcrypto;
}

/** Return a new idempotency key with 128 random bits. */
export async function createIdempotencyKey(): Promise<string> {
  const bytes = (await getCrypto()).getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
