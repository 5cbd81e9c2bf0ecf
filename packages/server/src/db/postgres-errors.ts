import { DatabaseError } from '../errors.ts'

// SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
const dataException = '22'
const integrityViolation = '23'
/** Another process concurrently created the table or its row type. */
const alreadyThere = ['42P07', '42710']
const deadlock = '40P01'
const serializationFailure = '40001'
/** A pooler switched the server connection, or a migration changed a table used by a prepared statement. */
const lostStatements = ['26000', '42P05', '0A000']
/** The server is stopping, starting or no longer the primary, or a transaction was idle for too long. */
const idleInTransaction = '25P03'
const serverLeaves = ['57P01', '57P02', '57P03', '25006', idleInTransaction]
/** Error raised by `lockFound` of the dialect. */
const divisionByZero = '22012'
/** `lock_timeout` passed. */
const lockTimeout = '55P03'
/** Caused by a conflict with another transaction or by a timeout (57014 is a cancelled statement). */
const conflicts = [deadlock, serializationFailure, lockTimeout, '57014', idleInTransaction]

const codeOf = (fault: unknown): string => String((fault as { code?: unknown } | undefined)?.code ?? '')

/** Errors sent by the server have a SQLSTATE; after any other error the state of the connection is unknown. */
export function breaksConnection(fault: unknown): boolean {
  const code = codeOf(fault)
  return !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || serverLeaves.includes(code)
}

/** Whether the transaction was rolled back for a reason that a retry is unlikely to meet. */
export function isWorthRepeating(fault: unknown): boolean {
  const code = codeOf(fault instanceof DatabaseError ? fault.cause : fault)
  return code === deadlock || code === serializationFailure || lostStatements.includes(code)
}

/** Whether another session held a lock for too long, or there was a deadlock. */
export const isLockedOut = (fault: unknown): boolean => [lockTimeout, deadlock].includes(codeOf(fault))

export function toDatabaseError(fault: unknown): DatabaseError {
  if (fault instanceof DatabaseError) return fault
  const code = codeOf(fault)
  const constraint =
    code.startsWith(dataException) || code.startsWith(integrityViolation) || alreadyThere.includes(code)
  return new DatabaseError((fault as Error).message || 'The database does not answer.', {
    constraint,
    stale: code === divisionByZero,
    busy: conflicts.includes(code),
    cause: fault,
  })
}

/** Invalid password or user (class 28), or no such database (class 3D). */
const refusesUs = /^(28|3D)/

/** Whether the server refused user or password. */
export const refusesLogin = (fault: unknown): boolean =>
  codeOf(fault instanceof DatabaseError ? fault.cause : fault).startsWith('28')

/** Errors of Node.js about certificates (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const notTrusted = /^ERR_TLS_CERT|CERT|^UNABLE_TO_VERIFY/

/** Describes why the first connection failed and, for a wrong setting, how to correct it. */
export function startFault(fault: Error): string {
  const code = codeOf(fault instanceof DatabaseError ? fault.cause : fault)
  const text = fault.message || code
  if (refusesUs.test(code)) return `${text}: correct user, password and database in DATABASE_URL.`
  if (code === 'ENOENT') return `${text}: correct sslrootcert, sslcert or sslkey in DATABASE_URL.`
  if (notTrusted.test(code) || text === 'certificate signature failure') {
    return `${text}: give the authority of the certificate as sslrootcert in DATABASE_URL, and a host that the certificate names.`
  }
  return /^E[A-Z_]+$/.test(code) ? `${text}: start PostgreSQL, or correct the address in DATABASE_URL.` : text
}
