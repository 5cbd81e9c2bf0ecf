import { setTimeout as pause } from 'node:timers/promises'

/** The inspector of a process that was started with `--inspect`. */
export interface Inspector {
  /** Collects garbage in all threads. Returns the bytes of their heaps after it. */
  collect(): Promise<number>
  close(): void
}

interface Message {
  id?: number
  method?: string
  params?: { sessionId: string; message: string }
  result?: unknown
}

const attachWithinMs = 500

/** See https://chromedevtools.github.io/devtools-protocol/v8/ and Node's domain NodeWorker. */
export async function openInspector(port: number): Promise<Inspector> {
  const targets = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()
  const socket = new WebSocket((targets as { webSocketDebuggerUrl: string }[])[0]!.webSocketDebuggerUrl)
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true })
    socket.addEventListener('error', reject, { once: true })
  })
  const threads: (string | undefined)[] = [undefined]
  const waiting = new Map<number, (result: unknown) => void>()
  let asked = 0
  const take = ({ id, method, params, result }: Message) => {
    if (method === 'NodeWorker.attachedToWorker') threads.push(params!.sessionId)
    else if (method === 'NodeWorker.receivedMessageFromWorker') take(JSON.parse(params!.message))
    else if (id !== undefined) waiting.get(id)?.(result)
  }
  socket.addEventListener('message', ({ data }) => take(JSON.parse(String(data))))

  function send(method: string, params: object, thread?: string): Promise<unknown> {
    const id = ++asked
    const { promise, resolve } = Promise.withResolvers<unknown>()
    waiting.set(id, resolve)
    const message = JSON.stringify({ id, method, params })
    if (thread === undefined) socket.send(message)
    else void send('NodeWorker.sendMessageToWorker', { sessionId: thread, message })
    return promise.finally(() => waiting.delete(id))
  }
  await send('NodeWorker.enable', { waitForDebuggerOnStart: false })
  // Threads that run are attached to a moment later; nothing says that these were all.
  await pause(attachWithinMs)

  return {
    async collect() {
      let bytes = 0
      for (const thread of threads) {
        // One collection is not enough: memory released by finalizers is collected by the next one.
        for (let pass = 0; pass < 3; pass++) await send('HeapProfiler.collectGarbage', {}, thread)
        const { usedSize } = (await send('Runtime.getHeapUsage', {}, thread)) as { usedSize: number }
        bytes += usedSize
      }
      return bytes
    },
    close: () => socket.close(),
  }
}
