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
/** The server is stopping, starting, or no longer the primary. */
const serverLeaves = ['57P01', '57P02', '57P03', '25006']

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

export function toDatabaseError(fault: unknown): DatabaseError {
  if (fault instanceof DatabaseError) return fault
  const code = codeOf(fault)
  const constraint =
    code.startsWith(dataException) || code.startsWith(integrityViolation) || alreadyThere.includes(code)
  return new DatabaseError((fault as Error).message || 'The database does not answer.', { constraint, cause: fault })
}
