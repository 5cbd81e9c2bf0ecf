const encoder = new TextEncoder()

/** Returns the hex SHA-256 of a text. It is computed off the main thread, so the page stays responsive. */
export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Browsers offer hashing only to pages over HTTPS and on localhost. */
export const canVerify = (): boolean => globalThis.crypto?.subtle !== undefined
