const encoder = new TextEncoder()

/** Each hash is computed outside of the thread of the page, which stays free between two of them. */
export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Browsers compute hashes for pages of HTTPS and of this machine only. */
export const canVerify = (): boolean => globalThis.crypto?.subtle !== undefined
