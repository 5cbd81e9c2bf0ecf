import { useSyncExternalStore } from 'react'
import { type LiveBatch, openLiveConnection } from './live-connection.ts'
import type { PageMessage } from './live-worker.ts'
import workerAddress from './live-worker.ts?worker&url'
import { sessionSecret } from './storage.ts'

type LiveState = Pick<LiveBatch, 'phase' | 'heardAt' | 'connection'>

/** Chrome on Android has no shared workers, so each page opens its own stream there. */
export const hasSharedStream = typeof SharedWorker !== 'undefined'

const hereEveryMs = 20_000
const hiddenMs = 250

let state: LiveState = { phase: 'connecting', heardAt: undefined, connection: 0 }
const stateListeners = new Set<() => void>()
const batchListeners = new Set<(batch: LiveBatch) => void>()

/** Events since the last frame. */
let waiting: LiveBatch | undefined

/** Merges the batches of one animation frame into one change. A hidden page gets no frames, so it uses a timer. */
function take(batch: LiveBatch): void {
  if (!waiting) {
    if (document.hidden) setTimeout(apply, hiddenMs)
    else requestAnimationFrame(apply)
    waiting = batch
    return
  }
  const { events, control, stats, hasGap } = waiting
  waiting = {
    ...batch,
    hasGap: batch.hasGap || hasGap,
    events: [...events, ...batch.events],
    control: [...control, ...batch.control],
    stats: batch.stats ?? stats,
  }
}

function apply(): void {
  const batch = waiting
  if (!batch) return
  waiting = undefined
  state = { phase: batch.phase, heardAt: batch.heardAt, connection: batch.connection }
  for (const listen of batchListeners) listen(batch)
  for (const listen of stateListeners) listen()
}
// A frame requested before the page was hidden does not arrive.
document.addEventListener('visibilitychange', apply)

interface ScriptPolicy {
  createScriptURL(address: string): string
}
declare const trustedTypes:
  | { createPolicy(name: string, rules: { createScriptURL(address: string): string }): ScriptPolicy }
  | undefined

/** Creates the page's only trusted script address: that of the shared worker. */
function trustedWorker(): string {
  const createScriptURL = (address: string) => {
    if (address !== workerAddress) throw new Error('Only the worker of the stream is loaded by address.')
    return address
  }
  if (typeof trustedTypes === 'undefined') return workerAddress
  return trustedTypes.createPolicy('wardline', { createScriptURL }).createScriptURL(workerAddress)
}

let wakeConnection: (() => void) | undefined

/** Opens this browser's stream, or joins it. */
export function startLive(): void {
  if (wakeConnection) {
    wakeConnection()
    return
  }
  if (!hasSharedStream) {
    const { wake } = openLiveConnection(take)
    wakeConnection = wake
    return
  }
  const { port } = new SharedWorker(trustedWorker(), { type: 'module', name: 'wardline' })
  const say = (word: PageMessage['word']) => port.postMessage({ word, secret: sessionSecret() } satisfies PageMessage)
  port.onmessage = ({ data }: MessageEvent<LiveBatch>) => take(data)
  wakeConnection = () => say('wake')
  say('wake')
  setInterval(() => say('here'), hereEveryMs)
  addEventListener('pagehide', () => say('leave'))
  addEventListener('pageshow', () => say('wake'))
  addEventListener('online', () => say('wake'))
}

export function onLiveBatch(listen: (batch: LiveBatch) => void): () => void {
  batchListeners.add(listen)
  return () => void batchListeners.delete(listen)
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(
    (changed) => {
      stateListeners.add(changed)
      return () => void stateListeners.delete(changed)
    },
    () => state,
  )
}
