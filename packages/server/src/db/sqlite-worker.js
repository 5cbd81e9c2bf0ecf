import { hash } from 'node:crypto'
import { backup, DatabaseSync } from 'node:sqlite'
import { parentPort } from 'node:worker_threads'

// Type-checked JavaScript, because stripping types would cost the thread another 15 MiB and 100 ms.

/** Cached prepared statements. The service has about fifty; filtered lists add a few hundred combinations. */
const statementLimit = 300

/** @type {DatabaseSync} */
let connection
/** @type {Map<string, { statement: import('node:sqlite').StatementSync, reads: boolean }>} */
const prepared = new Map()

/** @param {string} name */
function readPragma(name) {
  return Object.values(connection.prepare(`pragma ${name}`).get() ?? {})[0]
}

/** @param {boolean} readOnly */
function configure(readOnly) {
  // The page cache is small because the operating system caches the hot pages as well.
  connection.exec('pragma cache_size = -8000; pragma temp_store = memory; pragma trusted_schema = off')
  if (readOnly) return
  connection.exec('pragma journal_mode = wal; pragma synchronous = full; pragma journal_size_limit = 67108864')
  // Four times the default, for fewer checkpoints: each one delays the commit that triggers it.
  connection.exec('pragma wal_autocheckpoint = 4000')
  // A 201 means "on disk": anything less than FULL would lose acknowledged events when the power fails.
  if (readPragma('journal_mode') !== 'wal' || readPragma('synchronous') !== 2) {
    throw new Error('SQLite does not keep journal_mode=wal with synchronous=full here.')
  }
}

// Functions used by the dialect in db/sqlite.ts.
function addFunctions() {
  connection.function('sha256_hex', { deterministic: true }, (text) => hash('sha256', String(text), 'hex'))
  connection.function('assert_found', (count) => {
    if (count === 0) throw Object.assign(new Error('A row to be locked is missing.'), { isStale: true })
    return count
  })
}

/** @param {string} sql */
function prepare(sql) {
  const known = prepared.get(sql)
  if (known) return known
  if (prepared.size >= statementLimit) prepared.delete(String(prepared.keys().next().value))
  const statement = connection.prepare(sql)
  const made = { statement, reads: statement.columns().length > 0 }
  prepared.set(sql, made)
  return made
}

/** @param {import('./sqlite-link.ts').BareStatement} statement */
function run({ sql, parameters, rows, lastNumber }) {
  const { statement, reads } = prepare(sql)
  if (rows !== undefined) return { rows: [], changes: runEach(statement, JSON.parse(rows), lastNumber) }
  if (reads) return { rows: statement.all(...parameters), changes: 0 }
  const { changes } = statement.run(...parameters)
  return { rows: [], changes: Number(changes) }
}

/**
 * @param {import('node:sqlite').StatementSync} statement
 * @param {import('node:sqlite').SQLInputValue[][]} rows
 * @param {string | undefined} lastNumber
 */
function runEach(statement, rows, lastNumber) {
  if (lastNumber === undefined) for (const row of rows) statement.run(...row)
  else {
    // Querying the number for each row would take a tenth of the thread's time.
    let number = Number(prepare(lastNumber).statement.get()?.value) - rows.length
    for (const row of rows) statement.run(++number, ...row)
  }
  return rows.length
}

/** @param {import('./sqlite-link.ts').BareStatement[]} statements */
function runAll(statements) {
  if (statements.length === 1) return statements.map(run)
  // Prepared, because parsing `begin` and `commit` for each transaction takes as long as storing three rows.
  prepare('begin immediate').statement.run()
  try {
    const results = statements.map(run)
    prepare('commit').statement.run()
    return results
  } catch (fault) {
    rollback()
    throw fault
  }
}

/** @param {boolean} isLate */
function setLateSync(isLate) {
  // A checkpoint syncs the log, with all commits in it. Not prepared: a pragma takes effect when it is prepared.
  connection.exec(`pragma synchronous = ${isLate ? 'normal' : 'full'}`)
  if (!isLate) connection.exec('pragma wal_checkpoint(passive)')
}

function rollback() {
  if (connection.isTransaction) connection.exec('rollback')
}

/**
 * @param {import('./sqlite-link.ts').Request} request
 * @returns {Promise<import('./sqlite-link.ts').Reply>}
 */
async function answer(request) {
  try {
    if (request.kind === 'run') return { id: request.id, results: runAll(request.statements) }
    if (request.kind === 'rollback') rollback()
    if (request.kind === 'late sync') setLateSync(request.isLate)
    if (request.kind === 'backup') await backup(connection, request.file)
    if (request.kind === 'close') connection.close()
    return { id: request.id, results: [] }
  } catch (fault) {
    const { message, errcode = 0, isStale } = /** @type {Error & { errcode?: number, isStale?: true }} */ (fault)
    return { id: request.id, error: { message, code: errcode, stale: isStale === true } }
  }
}

/** @param {import('./sqlite-link.ts').Opening} opening */
function open({ file, readOnly, port }) {
  prepared.clear()
  try {
    connection = new DatabaseSync(file, { readOnly, timeout: 1500, enableForeignKeyConstraints: false })
    configure(readOnly)
    addFunctions()
  } catch (fault) {
    if (connection?.isOpen) connection.close()
    port.postMessage({ cannotOpen: fault })
    port.close()
    return
  }
  port.postMessage({ ready: connection.prepare('select sqlite_version() as version').get()?.version })
  port.on('message', async (request) => {
    port.postMessage(await answer(request))
    if (request.kind === 'close') port.close()
  })
}

// A thread opens one database after another, never two at once.
parentPort?.on('message', open)
