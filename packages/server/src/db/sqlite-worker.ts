import { backup, DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

/** See Statement in database.ts. */
interface BareStatement {
  sql: string
  parameters: readonly unknown[]
  rows: string | undefined
}

/** Asked of the worker. A `run` of several statements is one transaction. */
export type Request =
  | { id: number; kind: 'run'; statements: BareStatement[] }
  /** Ends an open transaction; SQLite itself may have ended it, as it does when the disk is full. */
  | { id: number; kind: 'rollback' }
  | { id: number; kind: 'backup'; file: string }
  | { id: number; kind: 'close' }

export type Reply =
  | { id: number; results: { rows: Record<string, unknown>[]; changes: number }[] }
  | { id: number; error: { message: string; code: number } }

/** Prepared statements kept; the service has some fifty, lists with filters add a few hundred combinations. */
const statementLimit = 300

const { file, readOnly } = workerData as { file: string; readOnly: boolean }
const connection = new DatabaseSync(file, { readOnly, timeout: 1500, enableForeignKeyConstraints: false })
const prepared = new Map<string, StatementSync>()

function readPragma(name: string): unknown {
  return Object.values(connection.prepare(`pragma ${name}`).get() ?? {})[0]
}

function configure() {
  // The page cache is small on purpose: the operating system's holds the hot pages as well.
  connection.exec('pragma cache_size = -8000; pragma temp_store = memory; pragma trusted_schema = off')
  if (readOnly) return
  connection.exec('pragma journal_mode = wal; pragma synchronous = full; pragma journal_size_limit = 67108864')
  // Four times the default: fewer checkpoints, each of which keeps the commit that triggers it waiting for the disk.
  connection.exec('pragma wal_autocheckpoint = 4000')
  // A 201 means "on disk": anything less than FULL would lose acknowledged events when the power fails.
  if (readPragma('journal_mode') !== 'wal' || readPragma('synchronous') !== 2) {
    throw new Error('SQLite does not keep journal_mode=wal with synchronous=full here.')
  }
}

function prepare(sql: string): StatementSync {
  const known = prepared.get(sql)
  if (known) return known
  if (prepared.size >= statementLimit) prepared.delete(prepared.keys().next().value!)
  const statement = connection.prepare(sql)
  prepared.set(sql, statement)
  return statement
}

function run({ sql, parameters, rows }: BareStatement) {
  const statement = prepare(sql)
  if (rows !== undefined) {
    const values = JSON.parse(rows) as SQLInputValue[][]
    for (const [index, row] of values.entries()) statement.run(values.length - 1 - index, ...row)
    return { rows: [], changes: values.length }
  }
  if (statement.columns().length > 0) {
    return { rows: statement.all(...(parameters as SQLInputValue[])) as Record<string, unknown>[], changes: 0 }
  }
  const { changes } = statement.run(...(parameters as SQLInputValue[]))
  return { rows: [], changes: Number(changes) }
}

function runAll(statements: BareStatement[]) {
  if (statements.length === 1) return [run(statements[0]!)]
  connection.exec('begin immediate')
  try {
    const results = statements.map(run)
    connection.exec('commit')
    return results
  } catch (fault) {
    rollback()
    throw fault
  }
}

function rollback() {
  if (connection.isTransaction) connection.exec('rollback')
}

async function answer(request: Request): Promise<Reply> {
  try {
    if (request.kind === 'run') return { id: request.id, results: runAll(request.statements) }
    if (request.kind === 'rollback') rollback()
    if (request.kind === 'backup') await backup(connection, request.file)
    if (request.kind === 'close') connection.close()
    return { id: request.id, results: [] }
  } catch (fault) {
    const { message, errcode = 0 } = fault as Error & { errcode?: number }
    return { id: request.id, error: { message, code: errcode } }
  }
}

configure()
parentPort!.postMessage({ ready: connection.prepare('select sqlite_version() as version').get()!.version })
parentPort!.on('message', async (request: Request) => {
  parentPort!.postMessage(await answer(request))
  if (request.kind === 'close') parentPort!.close()
})
