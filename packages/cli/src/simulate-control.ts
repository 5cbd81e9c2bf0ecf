import { setTimeout as pause } from 'node:timers/promises'
import { type ControlMessage, endpoints } from '@wardline/contract'

/** A little longer than the service's own retry, which a simulation need not follow to the millisecond. */
const reconnectMs = 2_500
/** A control message has a few hundred characters; a line without an end must not fill the memory. */
const mostCharacters = 64 * 1024

/** The data of each message of a Server-Sent Events text, however it is cut into chunks. One `data:` line a message. */
export async function* eventStreamData(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split(/\r\n|\n/)
    rest = lines.pop() ?? ''
    if (rest.length > mostCharacters) return
    for (const line of lines) {
      if (line.startsWith('data:')) yield line.slice('data:'.length).trimStart()
    }
  }
}

/** The message if it is one for this instance, else undefined. */
export function readControlMessage(text: string, instanceId: string): ControlMessage | undefined {
  let message: Partial<ControlMessage> | null
  try {
    message = JSON.parse(text)
  } catch {
    return undefined
  }
  const fits =
    message?.instance_id === instanceId &&
    (message.action === 'suspend' || message.action === 'resume') &&
    Number.isSafeInteger(message.version)
  return fits ? (message as ControlMessage) : undefined
}

export interface ControlOptions {
  url: string
  key: string
  instanceId: string
  signal: AbortSignal
  onMessage: (message: ControlMessage) => Promise<void>
}

async function followOnce({ url, key, instanceId, signal, onMessage }: ControlOptions): Promise<void> {
  const path = endpoints.streamControl.path.replace(':instanceId', instanceId)
  const response = await fetch(new URL(path, url), { headers: { 'x-monitor-key': key }, signal })
  if (response.status !== 200 || response.body === null) {
    await response.body?.cancel()
    return
  }
  for await (const data of eventStreamData(response.body.pipeThrough(new TextDecoderStream()))) {
    const message = readControlMessage(data, instanceId)
    if (message) await onMessage(message)
  }
}

/** Follows the control stream of one instance until the signal is aborted; a lost connection is opened again. */
export async function followControl(options: ControlOptions): Promise<void> {
  const { signal } = options
  while (!signal.aborted) {
    await followOnce(options).catch(() => {})
    await pause(reconnectMs, undefined, { signal }).catch(() => {})
  }
}
