import { CompiledQuery, sql } from 'kysely'
import { DatabaseError } from '../errors.ts'
import type { Database, Db, Dialect } from './database.ts'
import { initial } from './migrations/0001-initial.ts'
import { controlChanges } from './migrations/0002-control-changes.ts'
import { alerts } from './migrations/0003-alerts.ts'
import { idempotencyKinds } from './migrations/0004-idempotency-kinds.ts'
import { serviceEvents } from './migrations/0005-service-events.ts'
import { sessionFamilies } from './migrations/0006-session-families.ts'
import { keyQuotas } from './migrations/0007-key-quotas.ts'
import { instanceLimits } from './migrations/0008-instance-limits.ts'
import { alertLanes } from './migrations/0009-alert-lanes.ts'
import { claimedVersions } from './migrations/0010-claimed-versions.ts'
import { markServiceEvents } from './migrations/0011-marked-events.ts'
import { auditIndex } from './migrations/0012-audit-index.ts'
import { batchIds } from './migrations/0013-batch-ids.ts'
import { instanceTags } from './migrations/0014-instance-tags.ts'
import { instanceHours } from './migrations/0015-instance-hours.ts'
import { savedViews } from './migrations/0016-saved-views.ts'
import { loginCodes } from './migrations/0017-login-codes.ts'
import { alertsToHandle } from './migrations/0018-alerts-to-handle.ts'
import { silence } from './migrations/0019-silence.ts'
import { baselines } from './migrations/0020-baselines.ts'
import { suspensions } from './migrations/0021-suspensions.ts'
import { containments } from './migrations/0022-containments.ts'
import { drills } from './migrations/0023-drills.ts'
import { breaches } from './migrations/0024-breaches.ts'
import { enforcement } from './migrations/0025-enforcement.ts'
import { drillsNamed } from './migrations/0026-drills-named.ts'
import { resumeMembers } from './migrations/0027-resume-members.ts'
import { blindnessNamed } from './migrations/0028-blindness-named.ts'
import { rules } from './migrations/0029-rules.ts'
import { alertSubjects } from './migrations/0030-alert-subjects.ts'
import { alertChannelsNamed } from './migrations/0031-alert-channels-named.ts'
import { signingKeys } from './migrations/0032-signing-keys.ts'
import { chain } from './migrations/0033-chain.ts'
import { decoyInventory } from './migrations/0034-decoy-inventory.ts'
import { verifications } from './migrations/0035-verifications.ts'
import { firingBudgets } from './migrations/0036-firing-budgets.ts'
import { suspensionEnds } from './migrations/0037-suspension-ends.ts'
import { sessionSecrets } from './migrations/0038-session-secrets.ts'
import { chainDrops } from './migrations/0039-chain-drops.ts'
import { reporters } from './migrations/0040-reporters.ts'
import { observedAddresses } from './migrations/0041-observed-addresses.ts'
import { heldKeys } from './migrations/0042-held-keys.ts'
import { ruleCosts } from './migrations/0043-rule-costs.ts'
import { plainWords } from './migrations/0044-plain-words.ts'
import { resumeRequesters } from './migrations/0045-resume-requesters.ts'
import { alertThreads } from './migrations/0046-alert-threads.ts'
import { problemCounts } from './migrations/0047-problem-counts.ts'
import { countedEvents } from './migrations/0048-counted-events.ts'
import { ruleDocuments } from './migrations/0049-rule-documents.ts'
import { ruleLists } from './migrations/0050-rule-lists.ts'
import { confirmedCosts } from './migrations/0051-confirmed-costs.ts'
import { identityUris } from './migrations/0052-identity-uris.ts'
import { signedAttestations } from './migrations/0053-signed-attestations.ts'
import { verifiedAgents } from './migrations/0054-verified-agents.ts'
import { otherAttestations } from './migrations/0055-other-attestations.ts'
import { policies } from './migrations/0056-policies.ts'
import { approvals } from './migrations/0057-approvals.ts'
import { keyApproves } from './migrations/0058-key-approves.ts'
import { keyModels } from './migrations/0059-key-models.ts'
import { supervisors } from './migrations/0060-supervisors.ts'
import { modelBudgets } from './migrations/0061-model-budgets.ts'
import { enforced } from './migrations/0062-enforced.ts'
import { modelCalls } from './migrations/0063-model-calls.ts'
import { drillsSupervised } from './migrations/0064-drills-supervised.ts'
import { drillsOfModels } from './migrations/0065-drills-of-models.ts'
import { witnesses } from './migrations/0066-witnesses.ts'
import { reportMismatches } from './migrations/0067-report-mismatches.ts'
import { agentConfigs } from './migrations/0068-agent-configs.ts'
import { parents } from './migrations/0069-parents.ts'
import { people } from './migrations/0070-people.ts'
import { teams } from './migrations/0071-teams.ts'
import { toolServers } from './migrations/0072-tool-servers.ts'
import { commandLogins } from './migrations/0073-command-logins.ts'
import { passkeys } from './migrations/0074-passkeys.ts'
import { comments } from './migrations/0075-comments.ts'
import { teamOperations } from './migrations/0076-team-operations.ts'
import { agentNotes } from './migrations/0077-agent-notes.ts'
import { personalMail } from './migrations/0078-personal-mail.ts'

interface Migration {
  version: number
  name: string
  /** Runs before the statements and outside their transaction: long changes must not hold locks that writers need. */
  fill?(database: Database): Promise<void>
  statements(ddl: Dialect['ddl']): string[]
}

/** Forward only, in order. Never edit a released version. */
const migrations: Migration[] = [
  { version: 1, name: 'initial', statements: initial },
  { version: 2, name: 'control-changes', statements: controlChanges },
  { version: 3, name: 'alerts', statements: alerts },
  { version: 4, name: 'idempotency-kinds', statements: idempotencyKinds },
  { version: 5, name: 'service-events', statements: serviceEvents },
  { version: 6, name: 'session-families', statements: sessionFamilies },
  { version: 7, name: 'key-quotas', statements: keyQuotas },
  { version: 8, name: 'instance-limits', statements: instanceLimits },
  { version: 9, name: 'alert-lanes', statements: alertLanes },
  { version: 10, name: 'claimed-versions', statements: claimedVersions },
  { version: 11, name: 'marked-events', fill: markServiceEvents, statements: () => [] },
  { version: 12, name: 'audit-index', statements: auditIndex },
  { version: 13, name: 'batch-ids', statements: batchIds },
  { version: 14, name: 'instance-tags', statements: instanceTags },
  { version: 15, name: 'instance-hours', statements: instanceHours },
  { version: 16, name: 'saved-views', statements: savedViews },
  { version: 17, name: 'login-codes', statements: loginCodes },
  { version: 18, name: 'alerts-to-handle', statements: alertsToHandle },
  { version: 19, name: 'silence', statements: silence },
  { version: 20, name: 'baselines', statements: baselines },
  { version: 21, name: 'suspensions', statements: suspensions },
  { version: 22, name: 'containments', statements: containments },
  { version: 23, name: 'drills', statements: drills },
  { version: 24, name: 'breaches', statements: breaches },
  { version: 25, name: 'enforcement', statements: enforcement },
  { version: 26, name: 'drills-named', statements: drillsNamed },
  { version: 27, name: 'resume-members', statements: resumeMembers },
  { version: 28, name: 'blindness-named', statements: blindnessNamed },
  { version: 29, name: 'rules', statements: rules },
  { version: 30, name: 'alert subjects', statements: alertSubjects },
  { version: 31, name: 'alert-channels-named', statements: alertChannelsNamed },
  { version: 32, name: 'signing-keys', statements: signingKeys },
  { version: 33, name: 'chain', statements: chain },
  { version: 34, name: 'decoy-inventory', statements: decoyInventory },
  { version: 35, name: 'verifications', statements: verifications },
  { version: 36, name: 'firing-budgets', statements: firingBudgets },
  { version: 37, name: 'suspension-ends', statements: suspensionEnds },
  { version: 38, name: 'session-secrets', statements: sessionSecrets },
  { version: 39, name: 'chain-drops', statements: chainDrops },
  { version: 40, name: 'reporters', statements: reporters },
  { version: 41, name: 'observed-addresses', statements: observedAddresses },
  { version: 42, name: 'held-keys', statements: heldKeys },
  { version: 43, name: 'rule-costs', statements: ruleCosts },
  { version: 44, name: 'plain-words', statements: plainWords },
  { version: 45, name: 'resume-requesters', statements: resumeRequesters },
  { version: 46, name: 'alert-threads', statements: alertThreads },
  { version: 47, name: 'problem-counts', statements: problemCounts },
  { version: 48, name: 'counted-events', statements: countedEvents },
  { version: 49, name: 'rule-documents', statements: ruleDocuments },
  { version: 50, name: 'rule-lists', statements: ruleLists },
  { version: 51, name: 'confirmed-costs', statements: confirmedCosts },
  { version: 52, name: 'identity-uris', statements: identityUris },
  { version: 53, name: 'signed-attestations', statements: signedAttestations },
  { version: 54, name: 'verified-agents', statements: verifiedAgents },
  { version: 55, name: 'other-attestations', statements: otherAttestations },
  { version: 56, name: 'policies', statements: policies },
  { version: 57, name: 'approvals', statements: approvals },
  { version: 58, name: 'key-approves', statements: keyApproves },
  { version: 59, name: 'key-models', statements: keyModels },
  { version: 60, name: 'supervisors', statements: supervisors },
  { version: 61, name: 'model-budgets', statements: modelBudgets },
  { version: 62, name: 'enforced', statements: enforced },
  { version: 63, name: 'model-calls', statements: modelCalls },
  { version: 64, name: 'drills-supervised', statements: drillsSupervised },
  { version: 65, name: 'drills-of-models', statements: drillsOfModels },
  { version: 66, name: 'witnesses', statements: witnesses },
  { version: 67, name: 'report-mismatches', statements: reportMismatches },
  { version: 68, name: 'agent-configs', statements: agentConfigs },
  { version: 69, name: 'parents', statements: parents },
  { version: 70, name: 'people', statements: people },
  { version: 71, name: 'teams', statements: teams },
  { version: 72, name: 'tool-servers', statements: toolServers },
  { version: 73, name: 'command-logins', statements: commandLogins },
  { version: 74, name: 'passkeys', statements: passkeys },
  { version: 75, name: 'comments', statements: comments },
  { version: 76, name: 'team-operations', statements: teamOperations },
  { version: 77, name: 'agent-notes', statements: agentNotes },
  { version: 78, name: 'personal-mail', statements: personalMail },
]

const newest = migrations.at(-1)!.version

/** Retries once, because `create table if not exists` fails when another process creates the table concurrently. */
async function createVersionTable(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  isFirstAttempt = true,
): Promise<void> {
  const { bigint, text } = dialect.ddl
  try {
    await sql`create table if not exists schema_version (
      version integer primary key, name ${sql.raw(text)} not null, applied_at ${sql.raw(bigint)} not null
    )`.execute(db)
  } catch (fault) {
    if (!isFirstAttempt || !(fault instanceof DatabaseError && fault.constraint)) throw fault
    await createVersionTable({ db, dialect }, false)
  }
}

/**
 * Migrates the schema to the newest version, or to `upTo`, each step in one transaction. Processes of an older version
 * may keep running. If a process dies during a step, the next startup repeats it.
 * Rejects with DatabaseError when the schema is newer than this program.
 */
export async function migrate(database: Database, now: number, upTo = newest): Promise<void> {
  const { db, dialect } = database
  await createVersionTable(database)
  const { current } = await db
    .selectFrom('schema_version')
    .select((e) => e.fn.coalesce(e.fn.max('version'), sql.lit(0)).as('current'))
    .executeTakeFirstOrThrow()
  if (current > newest) {
    throw new DatabaseError(
      `The database has schema ${current}, this version supports up to ${newest}: install a newer version.`,
    )
  }
  const step = migrations.find(({ version }) => version > current && version <= upTo)
  if (!step) return
  const { version, name } = step
  await step.fill?.(database)
  // Insert the version row first: if two processes start together, one fails here, changes nothing and checks again.
  const mark = db.insertInto('schema_version').values({ version, name, applied_at: now }).compile()
  try {
    await database.change([mark, ...step.statements(dialect.ddl).map((statement) => CompiledQuery.raw(statement))])
  } catch (fault) {
    if (!(fault instanceof DatabaseError && fault.constraint)) throw fault
  }
  await migrate(database, now, upTo)
}

/** Time of the first migration in epoch milliseconds; null for a database without migrations. */
export async function readFirstStart(db: Db): Promise<number | null> {
  const { at } = await db
    .selectFrom('schema_version')
    .select((e) => e.fn.min('applied_at').as('at'))
    .executeTakeFirstOrThrow()
  return at === null ? null : Number(at)
}

/** An upgrade is not followed by another one within this time. */
const oneMigrationMs = 3_600_000

/** Whether all migrations were applied together: the database was created by this version, not upgraded to it. */
export async function isSchemaNew(db: Db): Promise<boolean> {
  const { first, last } = await db
    .selectFrom('schema_version')
    .select((e) => [e.fn.min('applied_at').as('first'), e.fn.max('applied_at').as('last')])
    .executeTakeFirstOrThrow()
  return Number(last) - Number(first) < oneMigrationMs
}

/** Time at which the migration was applied, in epoch milliseconds; 0 if it was not. */
export async function readAppliedAt(db: Db, name: string): Promise<number> {
  const row = await db.selectFrom('schema_version').select('applied_at').where('name', '=', name).executeTakeFirst()
  return Number(row?.applied_at ?? 0)
}
