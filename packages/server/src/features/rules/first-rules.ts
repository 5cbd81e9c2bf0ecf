import type { RuleMode } from '@wardline/contract'
import { readCounter } from '../../db/counters.ts'
import type { Db } from '../../db/database.ts'
import { isSchemaNew } from '../../db/migrate.ts'
import type { Deps } from '../../deps.ts'
import { uuidV7 } from '../../ids.ts'
import { auditCheckpoint, localActor, recordAction } from '../audit/audit.ts'
import { countRules, insertRule, type RuleRow } from './queries.ts'
import { columnsOf, stateOf } from './rules.ts'
import { starterDocuments, starterTexts } from './starter-rules.ts'

const mode: RuleMode = 'observe'

/** Rolls back the transaction if another process has added the rules first. */
const notFirst = new Error('Another process has added the starter rules.')

function starterRows(now: number): RuleRow[] {
  const documents = starterDocuments()
  return starterTexts().map(({ name, text }) => {
    const times = { created_at: now, changed_at: now, changed_by: localActor('system').keyId }
    return {
      id: uuidV7(now),
      ...columnsOf(documents[name]!),
      mode,
      version: 1,
      text,
      format: 'yaml' as const,
      file: null,
      // Known once the rule is compiled, which the process that runs the rules does.
      cost: null,
      list_changes: 0,
      ...times,
    }
  })
}

/** Whether nothing was stored since the database was created: neither an event nor a change. */
async function isUnused(db: Db): Promise<boolean> {
  return (await readCounter(db, 'event_seq')) === 0 && (await auditCheckpoint(db, 0)).seq === 0
}

/**
 * Adds the starter rules to a new database, so that a first look at the rules shows what they find. Only at the first start:
 * who deletes them has deleted them, and an upgraded database keeps the rules that it has. With a folder of rules, that folder
 * says which rules there are.
 */
export async function addFirstRules({ config, database, clock }: Deps): Promise<void> {
  const { db } = database
  if (config.rulesDir !== undefined || !(await isSchemaNew(db)) || !(await isUnused(db))) return
  const now = clock.now()
  const rows = starterRows(now)
  try {
    await db.transaction().execute(async (trx) => {
      for (const [index, row] of rows.entries()) {
        const action = { action: 'rule.create', target: row.id, before: null, after: stateOf(row) }
        // The first audit entry makes processes take turns: the second one sees the rules of the first.
        await recordAction(database, trx, localActor('system'), action, now)
        if (index === 0 && (await countRules(trx)) > 0) throw notFirst
        await insertRule(trx, row)
      }
    })
  } catch (fault) {
    if (fault !== notFirst) throw fault
  }
}
