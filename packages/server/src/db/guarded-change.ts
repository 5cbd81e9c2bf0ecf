import { AppError, DatabaseError } from '../errors.ts'
import { type BatchOptions, type Database, type RowsOf, rowsOf, type Statement } from './database.ts'

/** A change based on earlier reads. `Dialect.lockFound` statements verify that the read data is still current. */
export interface PreparedChange<Result> {
  /** None: nothing has to be changed. */
  statements: Statement[]
  result(rowsOf: RowsOf): Result
}

/** An attempt fails if the same row changes concurrently. With fifty concurrent changes, 1 in 10,000 failed 8 times. */
const maxAttempts = 20
const retryAfterSeconds = 1

/**
 * Runs a control change in one round trip. This process may be paused at any time, and a lock held between round trips
 * would block all other processes. If a concurrent change made the read data stale, the change is prepared again;
 * `prepare` throws if it is no longer allowed. Throws AppError `overloaded` if all attempts lose to concurrent changes.
 */
export async function changeGuarded<Result>(
  database: Pick<Database, 'batch'>,
  prepare: () => Promise<PreparedChange<Result>>,
  options: BatchOptions = { isControl: true },
): Promise<Result> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const { statements, result } = await prepare()
    if (statements.length === 0) return result(() => [])
    try {
      return result(rowsOf(statements, await database.batch(statements, options)))
    } catch (fault) {
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
    }
  }
  throw new AppError('overloaded', 'Another change to the same entry is in progress; retry.', retryAfterSeconds)
}
