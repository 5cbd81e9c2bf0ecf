import type { VerifyText } from './signed-control.ts'

/** Far longer than what the service sends. */
const nonceForm = /^[\w-]{1,64}$/
const timeForm = /^[\dTZ:.-]{1,40}$/

/**
 * Whether a message of the control stream is a drill. Includes the nonce only if the drill is for this instance and,
 * where `verify` is given, signed by the deployment.
 */
export function readDrill(
  text: string,
  instanceId: string,
  verify?: VerifyText,
): { isDrill: boolean; nonce?: string | undefined } {
  let message: Record<string, unknown> | null
  try {
    message = JSON.parse(text)
  } catch {
    return { isDrill: false }
  }
  if (message?.action !== 'drill') return { isDrill: false }
  const { instance_id, nonce, issued_at, signature_ed25519 } = message
  if (instance_id !== instanceId || typeof nonce !== 'string' || !nonceForm.test(nonce)) return { isDrill: true }
  if (!verify) return { isDrill: true, nonce }
  const isSigned =
    timeForm.test(String(issued_at)) &&
    verify(`wardline-drill-v1\n${instanceId}\n${nonce}\n${issued_at}\n`, signature_ed25519)
  return { isDrill: true, nonce: isSigned ? nonce : undefined }
}
