import { DatabaseError } from '../errors.ts'

// SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
const dataException = '22'
const integrityViolation = '23'
/** A table, or the type of its rows, that another process created at the same moment. */
const alreadyThere = ['42P07', '42710']
const deadlock = '40P01'
const serializationFailure = '40001'
/** A pooler moved us to another server connection, or a migration changed a table under a prepared statement. */
const lostStatements = ['26000', '42P05', '0A000']
/** The server is stopping, starting, or no longer the primary; or it waited in vain for the rest of a transaction. */
const idleInTransaction = '25P03'
const serverLeaves = ['57P01', '57P02', '57P03', '25006', idleInTransaction]
/** What `hold` of the dialect fails with. */
const divisionByZero = '22012'
/** `lock_timeout` passed. */
const lockTimeout = '55P03'
/** Another transaction had locked what this one needs. */
const inTheWay = [deadlock, serializationFailure, lockTimeout, '57014', idleInTransaction]

const codeOf = (fault: unknown): string => String((fault as { code?: unknown } | undefined)?.code ?? '')

/** An answer of the server has a SQLSTATE; anything else means that the connection is in an unknown state. */
export function breaksConnection(fault: unknown): boolean {
  const code = codeOf(fault)
  return !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || serverLeaves.includes(code)
}

/** The transaction was undone for a reason that a second try does not meet. */
export function isWorthRepeating(fault: unknown): boolean {
  const code = codeOf(fault instanceof DatabaseError ? fault.cause : fault)
  return code === deadlock || code === serializationFailure || lostStatements.includes(code)
}

/** Another session kept a lock for too long, or both waited for each other (deadlock). */
export const isLockedOut = (fault: unknown): boolean => [lockTimeout, deadlock].includes(codeOf(fault))

export function toDatabaseError(fault: unknown): DatabaseError {
  if (fault instanceof DatabaseError) return fault
  const code = codeOf(fault)
  const constraint =
    code.startsWith(dataException) || code.startsWith(integrityViolation) || alreadyThere.includes(code)
  return new DatabaseError((fault as Error).message || 'The database does not answer.', {
    constraint,
    stale: code === divisionByZero,
    busy: inTheWay.includes(code),
    cause: fault,
  })
}

/** Invalid password or user, no such database (class 28 and 3D). */
const refusesUs = /^(28|3D)/

/** Why the first connection cannot be used, and what to do where that is a setting. */
export function startFault(fault: Error): string {
  const code = codeOf(fault instanceof DatabaseError ? fault.cause : fault)
  const text = fault.message || code
  if (refusesUs.test(code)) return `${text}: correct user, password and database in DATABASE_URL.`
  return /^E[A-Z_]+$/.test(code) ? `${text}: start PostgreSQL, or correct the address in DATABASE_URL.` : text
}
