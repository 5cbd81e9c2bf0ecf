import type { Db } from '../../db/database.ts'

/** Deletes up to `limit` suspensions that ended before an instant; resolves with their number. */
export async function deleteSuspensionsBefore(db: Db, cutoff: number, limit: number): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('suspensions')
    .where((e) =>
      e(
        e.refTuple('instance_id', 'version'),
        'in',
        e
          .selectFrom('suspensions')
          .select(['instance_id', 'version'])
          .where('resumed_at', '<', cutoff)
          .orderBy('resumed_at')
          .limit(limit)
          .$asTuple('instance_id', 'version'),
      ),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
