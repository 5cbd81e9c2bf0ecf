import { AppError, DatabaseError } from '../errors.ts'
import type { Database, Row, Statement } from './database.ts'

/** A change made from what was read, whose statements hold that it is still so (`Dialect.hold`). */
interface PreparedChange<Result> {
  statements: Statement[]
  /** The result of the change, from the rows of each statement. */
  result(rows: Row[][]): Result
}

/**
 * An attempt fails when another one changes the same row at that moment. With fifty at once, 1 in 10,000 failed 8
 * times.
 */
const maxAttempts = 20
const retryAfterSeconds = 1

/**
 * Makes a change of control in one round trip, so that no lock waits for this process: it may be paused at any moment,
 * and all other processes would wait with it. What another change made out of date is prepared again; `prepare` throws
 * when the change is not allowed any more. Throws AppError `overloaded` when others are faster all the time.
 */
export async function changeGuarded<Result>(
  database: Pick<Database, 'batch'>,
  prepare: () => Promise<PreparedChange<Result>>,
): Promise<Result> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const { statements, result } = await prepare()
    try {
      return result(await database.batch(statements, { isControl: true }))
    } catch (fault) {
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
    }
  }
  throw new AppError('overloaded', 'Another change to the same entry is in progress; retry.', retryAfterSeconds)
}
