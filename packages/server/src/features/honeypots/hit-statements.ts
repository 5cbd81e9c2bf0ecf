import type { Db } from '../../db/database.ts'
import { uuidV7Floor } from '../../ids.ts'
import { instanceOf } from './decoy-scope.ts'

interface HitRange {
  instanceId: string
  from: number
  to: number
}

/** Selects hits of an instance's decoys and hits caused by it, without test hits. Ids of hits sort by time. */
const hitsOf = (db: Db, { instanceId, from, to }: HitRange) =>
  db
    .selectFrom('honeypot_hits')
    .innerJoin('honeypots', 'honeypots.id', 'honeypot_hits.honeypot_id')
    .where('honeypot_hits.is_test', '=', 0)
    .where('honeypot_hits.id', '>=', uuidV7Floor(from))
    .where('honeypot_hits.at', '>=', from)
    .where('honeypot_hits.at', '<', to)
    .where((e) => e.or([e('honeypots.instance_id', '=', instanceId), e('honeypot_hits.reporter', '=', instanceId)]))

/** Reads a page of these hits, without key, path or label of the decoys. */
export async function readInstanceHits(db: Db, range: HitRange, after: string, limit: number) {
  const hits = await hitsOf(db, range)
    .select([
      'honeypot_hits.id as id',
      'honeypot_hits.at as at',
      'honeypot_hits.honeypot_id as honeypot_id',
      'honeypots.instance_id as instance_id',
      'honeypots.type as type',
      'honeypots.key_type as key_type',
      'honeypot_hits.reporter as reporter',
      'honeypot_hits.key_id as key_id',
      'honeypot_hits.tool as tool',
      'honeypot_hits.ip_address as ip_address',
      'honeypot_hits.event_id as event_id',
    ])
    .where('honeypot_hits.id', '>', after)
    .orderBy('honeypot_hits.id')
    .limit(limit)
    .execute()
  return hits.map((hit) => ({ ...hit, instance_id: instanceOf(hit.instance_id) }))
}

export async function countInstanceHits(db: Db, range: HitRange): Promise<number> {
  const { count } = await hitsOf(db, range)
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}
