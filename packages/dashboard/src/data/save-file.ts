import { parsedJson, WardlineError } from '@wardline/contract'
import { send } from './client.ts'

/** Saves a file as a download of the browser. */
export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}

/**
 * Saves a file of the service under the name it gives. A link could not send the session's secret. Browsers keep large
 * blobs on disk. Throws WardlineError.
 */
export async function download(address: string, signal: AbortSignal): Promise<void> {
  const response = await send(address, { signal }).catch((cause) => {
    throw new WardlineError(`No answer from ${location.origin}.`, 0, 'unreachable', { cause })
  })
  if (!response.ok) {
    const { error } = (parsedJson(await response.text()) ?? {}) as { error?: string }
    const code = response.headers.get('x-error-code') ?? 'unexpected'
    throw new WardlineError(error ?? `Unexpected answer ${response.status}.`, response.status, code)
  }
  const content = await response.blob().catch((cause) => {
    throw new WardlineError('The connection ended before the file was complete.', 0, 'unreachable', { cause })
  })
  const [, name = 'wardline'] = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '') ?? []
  saveFile(content, name)
}
