import { Readable } from 'node:stream'
import type { EndpointName, RuleBacktest } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Input, Router } from '../../http/route.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { Backtests } from './backtest.ts'
import { draftException, explainEvent } from './explanations.ts'
import { listFirings } from './firings.ts'
import { finished, type LogReplays, lines } from './log-replay.ts'
import type { RuleFiles } from './rule-files.ts'
import { setPackMode } from './rule-packs.ts'
import { testResults } from './rule-text.ts'
import {
  createRule,
  deleteRule,
  givenRule,
  listRules,
  readWithLists,
  replaceRule,
  setRuleMode,
  viewRule,
} from './rules.ts'
import type { RuleRunner } from './runner.ts'

const ok = { ok: true } as const

export function mountRules(
  router: Router,
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  {
    ruleFiles,
    ruleRunner,
    logReplays,
    protectionAlerts: protection,
  }: {
    ruleFiles: Pick<RuleFiles, 'faults'>
    ruleRunner: Pick<RuleRunner, 'learn'>
    logReplays: LogReplays
    protectionAlerts: ProtectionAlerts
  },
): void {
  const changing = ({ principal, request }: Pick<Input<EndpointName>, 'principal' | 'request'>) => ({
    database,
    protection,
    actor: requestActor(request),
    assertFresh: () => assertFresh(principal, clock.now()),
    now: clock.now(),
    hasNoFiles: config.rulesDir === undefined,
  })

  async function changed<Result>(change: Promise<Result>): Promise<Result> {
    const result = await change
    await ruleRunner.learn()
    return result
  }

  router.handle('createRule', (input) => changed(createRule(changing(input), givenRule(input.body))))

  router.handle('listRules', ({ principal }) =>
    database.scan(principal.keyId, async (db) => ({
      ...(await listRules(db, { now: clock.now(), team: principal.team })),
      file_faults: ruleFiles.faults(),
    })),
  )

  router.handle('getRule', ({ params, query, principal }) =>
    database.scan(principal.keyId, (db) => viewRule(db, params.id, query, { now: clock.now(), team: principal.team })),
  )

  router.handle('replaceRule', (input) => changed(replaceRule(changing(input), input.params.id, givenRule(input.body))))

  router.handle('deleteRule', async (input) => {
    await changed(deleteRule(changing(input), input.params.id))
    return ok
  })

  router.handle('setRuleMode', (input) => changed(setRuleMode(changing(input), input.params.id, input.body.mode)))

  router.handle('setPackMode', (input) => changed(setPackMode(changing(input), input.body)))

  const backtests = new Backtests({ database, clock }, { logReplays })

  router.handle('backtestRule', async ({ body, principal, request }, reply) => {
    const isAbandoned = () => request.raw.socket.destroyed
    const backtest = await backtests.begin(body, { keyId: principal.keyId, isAbandoned })
    if (!request.headers.accept?.includes('application/x-ndjson')) return finished(backtest)
    reply.type('application/x-ndjson')
    // A stream closed before its first line never enters the generator, which would call `end`.
    return Readable.from(lines(backtest)).once('close', backtest.end) as unknown as RuleBacktest
  })

  router.handle('testRule', async ({ body }) => testResults(await readWithLists(database.db, body.rule)))

  router.handle('explainEvent', ({ query, principal }) =>
    database.scan(principal.keyId, (db) => explainEvent(db, query, principal.team)),
  )

  router.handle('draftException', ({ params, body }) => draftException(database.db, params.id, body))

  router.handle('listRuleFirings', ({ params, query, principal }) =>
    database.scan(principal.keyId, (db) =>
      listFirings(db, params.id, query, { now: clock.now(), team: principal.team }),
    ),
  )
}
