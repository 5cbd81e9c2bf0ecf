import type { SQLInputValue } from 'node:sqlite'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { DatabaseError } from '../errors.ts'
import type { Statement } from './database.ts'

/** Statement with the options of the SQLite dialect, which the worker thread implements. */
export interface RepeatedStatement extends Statement {
  /** JSON array of arrays: the statement runs once for each inner array, with its values as parameters. */
  rows?: string
  /** Query for the number of the last row. Each run gets its row's number as the first parameter. */
  lastNumber?: string
}

export interface BareStatement {
  sql: string
  parameters: readonly SQLInputValue[]
  rows: string | undefined
  lastNumber: string | undefined
}

const bare = ({ sql, parameters, rows, lastNumber }: RepeatedStatement): BareStatement => ({
  sql,
  parameters: parameters as readonly SQLInputValue[],
  rows,
  lastNumber,
})

/** Message to the worker thread. A `run` of several statements is one transaction. */
export type Request =
  | { id: number; kind: 'run'; statements: BareStatement[] }
  /** Ends a transaction if one is still open; SQLite ends it by itself when the disk is full. */
  | { id: number; kind: 'rollback' }
  /** Whether commits reach the disk later. Once they no longer do, those before have reached it. */
  | { id: number; kind: 'late sync'; isLate: boolean }
  | { id: number; kind: 'backup'; file: string }
  | { id: number; kind: 'close' }

export type Reply =
  | { id: number; results: Result[] }
  | { id: number; error: { message: string; code: number; stale: boolean } }

/** Sent to a thread without a connection, which replies with `Opened`. */
export interface Opening {
  file: string
  readOnly: boolean
  port: MessagePort
}

/** `ready` is SQLite's version. */
type Opened = { ready: string } | { cannotOpen: Error }

type Result = { rows: Record<string, unknown>[]; changes: number }
type Unnumbered<Kind> = Kind extends Request ? Omit<Kind, 'id'> : never

interface Pending {
  resolve(results: Result[]): void
  reject(fault: Error): void
  askedAt: number
  overdue: boolean
}

/** Maximum wait for a reply before the caller gets an error. */
const deadlineMs = 1_750
const watchEveryMs = 125
/** One runs and one is ready in the worker; the others wait here, where a kill can overtake them. */
const maxPostedWrites = 2

// Primary result codes of SQLite (https://sqlite.org/rescode.html) and the extended ones of a failed sync.
const constraintViolation = 19
const typeMismatch = 20
const tooBig = 18
const failedSyncs = new Set([1034, 1290])
const diskFull = 13

/** Threads whose database was closed. Starting a thread takes 50 ms of CPU time, opening another database 1 ms. */
const idleThreads: Worker[] = []
/** The threads of one service: writes, reads and scans. */
const maxIdleThreads = 3

function takeThread(): Worker {
  const idle = idleThreads.pop()
  if (!idle) return new Worker(new URL('./sqlite-worker.js', import.meta.url), { name: 'sqlite' })
  idle.removeAllListeners()
  idle.ref()
  return idle
}

/** Keeps a thread without a connection for reuse, or terminates it if there are enough. */
async function returnThread(thread: Worker): Promise<void> {
  thread.removeAllListeners()
  if (idleThreads.length === maxIdleThreads) {
    await thread.terminate()
    return
  }
  thread.once('exit', () => idleThreads.splice(idleThreads.indexOf(thread), 1))
  thread.unref()
  idleThreads.push(thread)
}

interface LinkEvents {
  /** Called on errors that require a restart of the process. */
  onFatal(fault: Error): void
  onDiskFull(): void
}

/**
 * Sends requests to a worker thread with one SQLite connection. The worker replies in order; among waiting requests,
 * control goes first.
 */
export class SqliteLink {
  readonly #worker: Worker
  readonly #port: MessagePort
  readonly #pending = new Map<number, Pending>()
  readonly #watch: NodeJS.Timeout
  readonly #events: LinkEvents
  readonly #maxPosted: number
  readonly #posted = new Set<number>()
  readonly #control: Request[] = []
  readonly #others: Request[] = []
  #lastId = 0
  #closed = false

  private constructor(worker: Worker, port: MessagePort, events: LinkEvents, maxPosted: number) {
    this.#worker = worker
    this.#port = port
    this.#events = events
    this.#maxPosted = maxPosted
    this.#watch = setInterval(() => this.#rejectOverdue(), watchEveryMs).unref()
    port.on('message', (reply: Reply) => this.#settle(reply))
    worker.on('error', (fault) => this.#die(fault as Error))
    worker.on('exit', () => this.#die(new Error('The database thread ended.')))
  }

  /** Resolves with the link and SQLite's version. Rejects with DatabaseError if the file cannot be opened. */
  static async open(
    options: { file: string; readOnly: boolean },
    events: LinkEvents,
  ): Promise<{ link: SqliteLink; version: string }> {
    // Use a separate channel: only a MessagePort can be read without waiting for the event loop (receiveMessageOnPort).
    const { port1: port, port2 } = new MessageChannel()
    const worker = takeThread()
    worker.postMessage({ ...options, port: port2 } satisfies Opening, [port2])
    try {
      const opened = await new Promise<Opened>((resolve, reject) => {
        port.once('message', resolve)
        worker.once('error', reject)
      })
      if ('cannotOpen' in opened) {
        await returnThread(worker)
        throw opened.cannotOpen
      }
      worker.removeAllListeners('error')
      const link = new SqliteLink(worker, port, events, options.readOnly ? Infinity : maxPostedWrites)
      return { link, version: opened.ready }
    } catch (cause) {
      port.close()
      throw new DatabaseError(
        `The database ${options.file} cannot be opened: ${(cause as Error).message}. Give this user write access to the file and its folder, or change DATABASE_URL or WARDLINE_DATA_DIR.`,
        { cause },
      )
    }
  }

  run(statements: readonly Statement[], isControl = false): Promise<Result[]> {
    return this.#ask({ kind: 'run', statements: statements.map(bare) }, false, isControl)
  }

  /** Like `run`, but without a deadline. */
  change(statements: readonly Statement[]): Promise<Result[]> {
    return this.#ask({ kind: 'run', statements: statements.map(bare) }, true)
  }

  /** Processes the replies that have already arrived. */
  collect(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#settle(next.message as Reply)
    }
  }

  async rollback(): Promise<void> {
    // Goes first, so that no control request runs inside an abandoned transaction.
    await this.#ask({ kind: 'rollback' }, false, true)
  }

  async setLateSync(isLate: boolean): Promise<void> {
    await this.#ask({ kind: 'late sync', isLate }, true)
  }

  async backup(file: string): Promise<void> {
    await this.#ask({ kind: 'backup', file }, true)
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#ask({ kind: 'close' }, true)
    clearInterval(this.#watch)
    this.#port.close()
    await returnThread(this.#worker)
  }

  #ask(request: Unnumbered<Request>, patient: boolean, isControl = false): Promise<Result[]> {
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, askedAt: patient ? Infinity : performance.now(), overdue: false })
      const numbered = { ...request, id }
      // A backup runs concurrently with writes.
      if (request.kind === 'backup') this.#port.postMessage(numbered)
      else (isControl ? this.#control : this.#others).push(numbered)
      this.#post()
    })
  }

  #post(): void {
    while (this.#posted.size < this.#maxPosted) {
      const next = this.#control.shift() ?? this.#others.shift()
      if (!next) return
      // The request was overdue, and its caller already got an error.
      if (!this.#pending.has(next.id)) continue
      this.#posted.add(next.id)
      this.#port.postMessage(next)
    }
  }

  #settle(reply: Reply): void {
    this.#posted.delete(reply.id)
    this.#post()
    const pending = this.#pending.get(reply.id)
    if (!pending) return
    this.#pending.delete(reply.id)
    if ('results' in reply) {
      pending.resolve(reply.results)
      return
    }
    const { message, code, stale } = reply.error
    // After a failed sync the kernel may mark lost pages clean. Only a new process that recovers from the log is safe.
    if (failedSyncs.has(code)) this.#events.onFatal(new DatabaseError(message))
    const primary = code & 0xff
    if (primary === diskFull) this.#events.onDiskFull()
    const constraint = primary === constraintViolation || primary === typeMismatch || primary === tooBig
    pending.reject(new DatabaseError(message, { constraint, stale }))
  }

  // Reject only requests overdue in two checks: after a pause of the whole process, replies may already be waiting.
  #rejectOverdue(): void {
    const now = performance.now()
    for (const [id, pending] of this.#pending) {
      if (now - pending.askedAt < deadlineMs) continue
      if (!pending.overdue) {
        pending.overdue = true
        continue
      }
      this.#pending.delete(id)
      pending.reject(new DatabaseError('The database does not answer.'))
    }
  }

  #die(fault: Error): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#watch)
    this.#port.close()
    for (const { reject } of this.#pending.values())
      reject(new DatabaseError('The database thread ended.', { cause: fault }))
    this.#pending.clear()
    this.#events.onFatal(fault)
  }
}
