import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'

// PostgreSQL's wire protocol, version 3: https://www.postgresql.org/docs/current/protocol-message-formats.html
// PGlite is one session. Connections share it one at a time, each while its transaction is open. The state of the
// session (settings, advisory locks, temporary tables) is therefore common to all of them.

const sslRequest = 80_877_103
const gssRequest = 80_877_104
const cancelRequest = 80_877_102

function message(type: string, ...parts: (Buffer | string)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : part)))
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const int32 = (value: number): Buffer => {
  const buffer = Buffer.alloc(4)
  buffer.writeInt32BE(value)
  return buffer
}

const typeOf = (bytes: Buffer): string => String.fromCharCode(bytes[0]!)

/** Splits a byte stream into messages. The first messages of a connection have no type, only a length. */
class MessageReader {
  #rest: Buffer = Buffer.alloc(0)

  push(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
  }

  next(typed: boolean): Buffer | undefined {
    const offset = typed ? 1 : 0
    if (this.#rest.length < offset + 4) return undefined
    const length = offset + this.#rest.readInt32BE(offset)
    if (this.#rest.length < length) return undefined
    const bytes = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return bytes
  }
}

/** Names of prepared statements are local to a connection, so the shared session needs a prefix. */
function withOwnNames(bytes: Buffer, mark: string): Buffer {
  const type = typeOf(bytes)
  const nameAt = (start: number) => {
    const end = bytes.indexOf(0, start)
    const name = bytes.toString('utf8', start, end)
    return { name: name === '' ? '' : mark + name, rest: bytes.subarray(end + 1) }
  }
  if (type === 'P') {
    const { name, rest } = nameAt(5)
    return message('P', name, rest)
  }
  if (type === 'B') {
    const endOfPortal = bytes.indexOf(0, 5) + 1
    const { name, rest } = nameAt(endOfPortal)
    return message('B', bytes.subarray(5, endOfPortal), name, rest)
  }
  const concernsStatement = bytes[5] === 'S'.charCodeAt(0)
  if ((type === 'D' || type === 'C') && concernsStatement) return message(type, Buffer.from('S'), nameAt(6).name)
  return bytes
}

/** Messages up to a Sync or a simple query, which are answered together; outside a transaction they form one. */
interface Unit {
  socket: Socket
  bytes: Buffer
}

/** Lets connections use the session in turns. */
class Turns {
  readonly #db: PGlite
  #waiting: Unit[] = []
  /** Connection with the open transaction. */
  #holder: Socket | undefined

  constructor(db: PGlite) {
    this.#db = db
  }

  run(unit: Unit): void {
    this.#waiting.push(unit)
    this.#runAll()
  }

  leave(socket: Socket): void {
    this.#waiting = this.#waiting.filter((unit) => unit.socket !== socket)
    if (this.#holder !== socket) return
    this.#db.execProtocolRawSync(message('Q', 'rollback'))
    this.#holder = undefined
    this.#runAll()
  }

  #runAll(): void {
    for (let unit = this.#takeNext(); unit; unit = this.#takeNext()) {
      const answer = Buffer.from(this.#db.execProtocolRawSync(unit.bytes))
      // It ends with ReadyForQuery, whose last byte shows whether a transaction is open.
      const isIdle = answer.at(-1) === 'I'.charCodeAt(0)
      this.#holder = isIdle ? undefined : unit.socket
      unit.socket.write(answer)
    }
  }

  #takeNext(): Unit | undefined {
    const index = this.#waiting.findIndex(({ socket }) => this.#holder === undefined || socket === this.#holder)
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0]
  }
}

export interface Bridge extends AsyncDisposable {
  port: number
}

function greeting(id: number, version: string): Buffer {
  const parameters = {
    server_version: version,
    server_encoding: 'UTF8',
    client_encoding: 'UTF8',
    DateStyle: 'ISO, MDY',
    integer_datetimes: 'on',
    standard_conforming_strings: 'on',
    TimeZone: 'UTC',
  }
  return Buffer.concat([
    message('R', int32(0)),
    ...Object.entries(parameters).map(([name, value]) => message('S', name, value)),
    message('K', int32(id), int32(0)),
    message('Z', Buffer.from('I')),
  ])
}

function serve(socket: Socket, id: number, version: string, turns: Turns): void {
  const reader = new MessageReader()
  let isStarted = false
  let unit: Buffer[] = []

  const start = (bytes: Buffer) => {
    const code = bytes.readInt32BE(4)
    if (code === cancelRequest) socket.destroy()
    else if (code === sslRequest || code === gssRequest) socket.write('N')
    else {
      isStarted = true
      socket.write(greeting(id, version))
    }
  }
  const receive = (bytes: Buffer) => {
    const type = typeOf(bytes)
    if (type === 'X') return void socket.end()
    unit.push(withOwnNames(bytes, `c${id}_`))
    if (type !== 'S' && type !== 'Q') return
    turns.run({ socket, bytes: Buffer.concat(unit) })
    unit = []
  }
  socket.on('data', (chunk) => {
    reader.push(chunk)
    for (let bytes = reader.next(isStarted); bytes && !socket.destroyed; bytes = reader.next(isStarted)) {
      if (isStarted) receive(bytes)
      else start(bytes)
    }
  })
  socket.on('error', () => {})
  socket.on('close', () => turns.leave(socket))
}

/** Listens on 127.0.0.1. Closing it closes all connections and rolls back their transactions. */
export async function openBridge(db: PGlite): Promise<Bridge> {
  const { rows } = await db.query<{ server_version: string }>('show server_version')
  const version = rows[0]!.server_version
  const turns = new Turns(db)
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((socket) => {
    socket.setNoDelay()
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    serve(socket, ++connections, version, turns)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close()
      await Promise.all([once(server, 'close'), ...[...sockets].map((socket) => once(socket.destroy(), 'close'))])
    },
  }
}
