import { Readable } from 'node:stream'
import type { EndpointName, PolicyBacktest, PolicyDocument } from '@wardline/contract'
import type { ListedTool } from '@wardline/policy'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor } from '../../http/auth.ts'
import { matchesTag } from '../../http/etag.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Input, Router } from '../../http/route.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { finished, type LogReplays, lines } from '../rules/log-replay.ts'
import { PolicyBacktests } from './backtest.ts'
import { createPolicy, deletePolicy, listPolicies, replacePolicy, setPolicyMode, viewPolicy } from './policies.ts'
import type { PolicyFiles } from './policy-files.ts'
import type { PolicySets } from './policy-sets.ts'
import { type GivenPolicy, lintText, readGiven } from './policy-text.ts'

const ok = { ok: true } as const

/** Splits the body of a request: a document, or one beside the tools that it is for. */
const givenOf = (body: PolicyDocument | { policy: GivenPolicy; tools?: readonly ListedTool[] }) =>
  'policy' in body
    ? (body as { policy: GivenPolicy; tools?: readonly ListedTool[] })
    : { policy: body as PolicyDocument }

export function mountPolicies(
  router: Router,
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  {
    policyFiles,
    policySets,
    logReplays,
    protectionAlerts: protection,
  }: {
    policyFiles: Pick<PolicyFiles, 'faults'>
    policySets: PolicySets
    logReplays: LogReplays
    protectionAlerts: ProtectionAlerts
  },
): void {
  const changing = ({ principal, request }: Pick<Input<EndpointName>, 'principal' | 'request'>) => ({
    database,
    protection,
    policySets,
    actor: requestActor(request),
    assertFresh: () => assertFresh(principal, clock.now()),
    now: clock.now(),
    hasNoFiles: config.policyDir === undefined,
  })

  const read = (body: Parameters<typeof givenOf>[0]) => {
    const { policy, tools = [] } = givenOf(body)
    return readGiven(policy, tools, clock.now())
  }

  router.handle('createPolicy', async (input) => createPolicy(changing(input), read(input.body)))

  router.handle('listPolicies', ({ principal }) =>
    database.scan(principal.keyId, async (db) => ({ ...(await listPolicies(db)), file_faults: policyFiles.faults() })),
  )

  router.handle('getPolicy', ({ params, query, principal }) =>
    database.scan(principal.keyId, (db) => viewPolicy(db, params.id, query)),
  )

  router.handle('replacePolicy', async (input) => replacePolicy(changing(input), input.params.id, read(input.body)))

  router.handle('deletePolicy', async (input) => {
    await deletePolicy(changing(input), input.params.id)
    return ok
  })

  router.handle('setPolicyMode', (input) => setPolicyMode(changing(input), input.params.id, input.body.mode))

  router.handle('lintPolicy', ({ body }) => {
    const { policy: given, tools = [] } = body
    const { policy, faults } = lintText(given, tools, clock.now())
    return { title: policy?.title ?? null, rules: policy?.rules.length ?? 0, faults }
  })

  const backtests = new PolicyBacktests({ database, clock }, { logReplays })

  router.handle('backtestPolicy', async ({ body, principal, request }, reply) => {
    const isAbandoned = () => request.raw.socket.destroyed
    const backtest = await backtests.begin(body, { keyId: principal.keyId, isAbandoned })
    if (!request.headers.accept?.includes('application/x-ndjson')) return finished(backtest)
    reply.type('application/x-ndjson')
    // A stream closed before its first line never enters the generator, which would call `end`.
    return Readable.from(lines(backtest)).once('close', backtest.end) as unknown as PolicyBacktest
  })

  router.handle('getInstancePolicy', async ({ params, principal, request }, reply) => {
    const { instanceId } = params
    if (principal.scope === 'agent') assertMayActFor(principal, instanceId)
    const given = request.headers['if-none-match']
    const version = given === undefined ? undefined : await policySets.versionOf(instanceId)
    if (version !== undefined && matchesTag(given, `"${version}"`)) {
      reply.header('etag', `"${version}"`).code(304).send()
      return undefined as never
    }
    const set = await policySets.read(instanceId)
    reply.header('etag', `"${set.version}"`)
    return set
  })
}
