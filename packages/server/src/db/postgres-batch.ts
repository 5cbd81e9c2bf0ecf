import { hash } from 'node:crypto'
import { type Connection, type FieldDef, type Submittable, types } from 'pg'
import type { Row, Statement } from './database.ts'

// Methods that a custom query object needs and that the driver's types lack.
interface Wire {
  stream: Connection['stream']
  parse(statement: { name: string; text: string }): void
  bind(portal: { statement: string; values: readonly unknown[]; valueMapper(value: unknown): unknown }): void
  describe(target: { type: 'P'; name: string }): void
  execute(portal: { portal: string; rows: number }): void
  close(target: { type: 'S'; name: string }): void
  sync(): void
}

/** Names of the statements prepared on each connection. */
const preparedOn = new WeakMap<Connection, Set<string>>()
interface Known {
  name: string
  hasRows: boolean
}

/** Statement texts are few and constant, so their descriptions are cached without a limit. */
const known = new Map<string, Known>()

function describeText(text: string): Known {
  const found = known.get(text)
  if (found) return found
  const name = `wardline_${hash('sha256', text, 'hex').slice(0, 24)}`
  const description = { name, hasRows: /\breturning\b|^\s*select\b/i.test(text) }
  known.set(text, description)
  return description
}

const asText = (value: unknown) => (value === null || value === undefined ? null : String(value))

/**
 * Runs several statements in one round trip and one transaction. Everything between two Sync messages of the extended
 * protocol is one implicit transaction, committed at the Sync
 * (https://www.postgresql.org/docs/current/protocol-flow.html). `done` resolves after the commit.
 */
export class PostgresBatch implements Submittable {
  readonly done: Promise<Row[][]>
  readonly #statements: readonly Statement[]
  readonly #results: Row[][] = [[]]
  #fields: FieldDef[] = []
  #connection: Connection | undefined
  #fault: Error | undefined
  #resolve!: (results: Row[][]) => void
  #reject!: (fault: Error) => void

  constructor(statements: readonly Statement[]) {
    this.#statements = statements
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  submit(connection: Connection): void {
    this.#connection = connection
    const wire = connection as unknown as Wire
    const prepared = preparedOn.get(connection) ?? new Set()
    preparedOn.set(connection, prepared)
    wire.stream.cork()
    for (const { sql, parameters } of this.#statements) {
      const { name, hasRows } = describeText(sql)
      if (!prepared.has(name)) {
        // After an error the statement may or may not be prepared. Closing a missing statement is not an error.
        wire.close({ type: 'S', name })
        wire.parse({ name, text: sql })
        prepared.add(name)
      }
      wire.bind({ statement: name, values: parameters, valueMapper: asText })
      if (hasRows) wire.describe({ type: 'P', name: '' })
      wire.execute({ portal: '', rows: 0 })
    }
    wire.sync()
    wire.stream.uncork()
  }

  handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.#fields = fields
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const row: Row = {}
    for (const [index, { name, dataTypeID }] of this.#fields.entries()) {
      const text = fields[index] ?? null
      row[name] = text === null ? null : parserOf(dataTypeID)(text)
    }
    this.#results.at(-1)!.push(row)
  }

  handleCommandComplete(): void {
    this.#results.push([])
  }

  handleEmptyQuery(): void {
    this.#results.push([])
  }

  handleError(fault: Error): void {
    if (this.#connection) preparedOn.delete(this.#connection)
    this.#fault = fault
    this.#reject(fault)
  }

  handleReadyForQuery(): void {
    if (this.#fault) this.#reject(this.#fault)
    else this.#resolve(this.#results.slice(0, -1))
  }
}

const int8 = 20
const numeric = 1700

/** Parses 64-bit integers and their sums as numbers: times, counts and seq stay far below 2^53. */
export const parserOf = (oid: number): ((text: string) => unknown) =>
  oid === int8 || oid === numeric ? Number : types.getTypeParser(oid)
