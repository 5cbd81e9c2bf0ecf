import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { commitBeforeSchema } from './test-servers/earlier-commit.ts'
import { memoryFolder } from './test-servers/memory-folder.ts'
import { findPgBouncer } from './test-servers/pgbouncer.ts'
import { missingPostgres } from './test-servers/postgres-cluster.ts'
import { LongestFirst } from './tools/test-order.ts'

const shared = { resolve: { conditions: ['wardline-source'] }, ssr: { resolve: { conditions: ['wardline-source'] } } }

const commandLine = process.argv.join(' ')
/** With `--mode nightly` long tests take their full measure, see test-servers/effort.ts. */
const isNightly = commandLine.includes('--mode nightly')
/** Only a test that hangs takes so long, on however busy a machine. */
const waitMs = isNightly ? 3_600_000 : 600_000
const env = {
  ...(isNightly ? { TEST_EFFORT: 'nightly' } : {}),
  // Vitest sets BASE_URL itself; the black-box suite may be aimed at a running service by it.
  ...(process.env.BASE_URL ? { BASE_URL: process.env.BASE_URL } : {}),
}
/** In CI a failure by the machine's load must not hide what else failed: a second attempt, and a list of those that needed it. */
const retry = process.env.CI ? 1 : 0

const root = fileURLToPath(new URL('.', import.meta.url))

/**
 * Tests whose means CI cannot count on, and is not to fail without: Debian 12 has no PgBouncer that is new enough, and a
 * shallow clone no earlier version. Elsewhere they are skipped with the reason.
 */
const leftOutOfCi = [
  ...('missing' in findPgBouncer() ? ['e2e/cluster/pgbouncer.test.ts'] : []),
  ...(commitBeforeSchema() === undefined ? ['e2e/cluster/upgrade.test.ts'] : []),
]
const leftOut = process.env.CI && !isNightly ? leftOutOfCi : []

const testsIn = (...folders: string[]) =>
  folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
    )
    .filter((path) => /^(?!.*node_modules).*\.test\.ts$/.test(path))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))

const unitTests = testsIn('packages', 'docs', 'deploy', 'test-servers')
/** Tests of the servers themselves, and of what speaks to them. */
const serverTests = unitTests
  .filter(
    ({ path, text }) =>
      path.startsWith('test-servers/') || /test-servers\/(postgres|redis|anvil)|inject\('(postgres|redis)/.test(text),
  )
  .map(({ path }) => path)
/**
 * Tests that compute for seconds: seven hundred of the agent's commands and other programs; thousands of mutated bodies
 * and bundles; simulations and properties.
 */
const takesLong = new RegExp(
  [
    '/cli/src/(demo/history|doctor/policy-setup)',
    '/policy/src/(properties|python)',
    'docs/incident-format',
    '/server/src/(mutated-bodies|held-loop|openapi-fuzz)',
    '/features/approvals/approval-simulation',
    '/features/audit/chain',
    '/features/auto-suspension/takeover',
    '/features/containments/containment-simulation',
    '/features/control/control-simulation',
    '/features/detection/(blindness|detector|judge|scout|silence)',
    '/features/gateway/cuts',
    '/features/honeypots/(decoy-requests|false-alarms|key-cost|key-extraction)',
    '/features/rules/(heavy-rules|mode-changes|restarts|state-floods|value-floods)',
    '/features/rules/language/(bounds|correlations|memory-limit|memory-work|rule-set|selections|slices)',
    '/features/drills/schedule',
    '/sdk/src/(claude-agent-sdk|control-link|decoy-evasion|here-documents|reports)',
    '/sdk/src/agent/(session-files|supervisor/.+)',
  ]
    .map((path) => `${path}\\.test`)
    .join('|'),
)
const longTests = unitTests
  .filter(
    ({ path, text }) =>
      (path.startsWith('packages/sdk/src/agent/') && text.includes('/testing/agent-command.ts')) ||
      takesLong.test(path),
  )
  .map(({ path }) => path)

/** Black-box tests that start the service, or other programs, again and again. */
const manyStarts =
  'e2e/{alerts-cli,approvals,attest-verify,backup,cli,containments,control-entries,drills,first-start,hooks,misbehaving-agents,outputs,power-loss,reported-decoys,rule-events,rule-forms,rules,simulate,start-faults,trust}.test.ts'

/**
 * Tests of what does not depend on the engine: parsing, HTTP, encoding, decisions in memory. Each statement that they
 * run is run on PostgreSQL by another test too. At night they run there as well.
 */
const sameOnEveryEngine = new RegExp(
  `/server/src/(${[
    '(held-loop|jobs|metrics|mutated-bodies)',
    '(http|features/(downloads|stream|system))/.+',
    'features/alerts/(planning/(alert-context|alert-lanes)|routing/(channels|environment-channels|routing-table))',
    'features/approvals/(approving-keys|press|telegram-presses)',
    'features/audit/protection',
    'features/auto-suspension/(brake|takeover)',
    'features/chain/(external-signer|identity-uri|lying-node|posted-verification|sinks)',
    'features/control/(control-signatures|open-streams|reconcile)',
    'features/detection/(blindness|judge|silence)',
    'features/events/(counted-reports|forged-reports)',
    'features/honeypots/(check|decoy-fetches|decoy-requests|false-alarms|key-cost)',
    'features/instances/(boots|shared-fleet|supervisors)',
    'features/keys/probing',
    'features/policies/(backtest|label-files)',
    'features/rules/(first-rules|floods|heavy-rules|mode-changes|observed-addresses|responses|restarts|runner|starter-rules|tag-decisions|value-floods)',
    'features/suspensions/suspended-version',
    'features/trust/verification/(agent-check|verification)',
  ].join('|')})\\.test\\.ts$`,
)
/** Tests that open the service or its database, for the other engines. */
const databaseTests = unitTests
  .filter(
    ({ path, text }) =>
      /\/testing\/(rule-service|service|teams)\.ts'/.test(text) &&
      /\/server\/src\/(?!db\/sqlite)/.test(path) &&
      (isNightly || !sameOnEveryEngine.test(path)),
  )
  .map(({ path }) => path)

/** Whether programs in it can be executed, such as a copy of PostgreSQL. */
const mayExecute = () =>
  memoryFolder() !== undefined && !/^\S+ \/dev\/shm \S+ \S*\bnoexec\b/m.test(readFileSync('/proc/mounts', 'utf8'))

/** Tests that need no disk are a tenth faster. */
const inMemory = memoryFolder() ? { TMPDIR: memoryFolder() } : {}
const executedInMemory = mayExecute() ? inMemory : {}

const timing = {
  testTimeout: waitMs,
  hookTimeout: waitMs,
  expect: { poll: { timeout: 60_000 } },
  retry,
}
const servers = './test-servers/setup.ts'

/** Every test opens a separate service, so the files can share a process. */
const unitOn = (engine: string, project: { name: string; include: string[]; env?: object; globalSetup?: string }) => ({
  ...shared,
  test: { isolate: false, ...timing, ...project, env: { TEST_ENGINE: engine, ...env, ...project.env } },
})

/** Tests from outside, with separate processes. */
const blackBox = ({
  globalSetup = [],
  ...project
}: {
  name: string
  include: string[]
  isolate?: boolean
  exclude?: string[]
  env?: object
  globalSetup?: string[]
}) => ({
  ...shared,
  test: {
    ...timing,
    ...project,
    env: { ...env, ...project.env },
    globalSetup: ['./e2e/bundle-command.ts', ...globalSetup],
  },
})

/** The code for PostgreSQL runs in PGlite where there is no server to run it, at night, and when asked for by name. */
const withPglite = isNightly || commandLine.includes('unit-pglite') || missingPostgres() !== undefined

/** The screens of the pictures are all opened by other tests. */
const takesPictures = isNightly || process.env.PICTURES !== undefined

export default defineConfig({
  ...shared,
  test: {
    env,
    // More than the cores that there are: many tests wait, for a process that starts, a socket or a disk. With six on two
    // cores nothing is idle either, and hooks that have to answer in time do not.
    maxWorkers: 4,
    teardownTimeout: 60_000,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './tools/test-reporter.ts'],
    projects: [
      { ...shared, test: { ...timing, name: 'tidy', include: ['tools/*.test.ts'] } },
      unitOn('sqlite', {
        name: 'unit',
        include: unitTests
          .map(({ path }) => path)
          .filter((path) => !serverTests.includes(path) && !longTests.includes(path)),
        env: inMemory,
      }),
      blackBox({ name: 'e2e', include: ['e2e/*.test.ts'], exclude: [manyStarts], env: inMemory }),
      blackBox({ name: 'e2e-starts', include: [manyStarts], env: inMemory }),
      unitOn('sqlite', { name: 'unit-long', include: longTests, env: inMemory }),
      unitOn('sqlite', { name: 'unit-servers', include: serverTests, globalSetup: servers }),
      unitOn('postgres', { name: 'unit-postgres', include: databaseTests, env: inMemory, globalSetup: servers }),
      ...(withPglite ? [unitOn('pglite', { name: 'unit-pglite', include: databaseTests })] : []),
      blackBox({ name: 'e2e-chain', include: ['e2e/chain/*.test.ts'], env: inMemory }),
      blackBox({
        name: 'e2e-cluster',
        include: ['e2e/cluster/*.test.ts'],
        exclude: leftOut,
        env: executedInMemory,
        globalSetup: [servers],
      }),
      blackBox({ name: 'e2e-chaos', include: ['e2e/chaos/*.test.ts'] }),
      blackBox({
        name: 'e2e-browser',
        // The files of a worker share its browser.
        isolate: false,
        include: [`e2e/browser/${takesPictures ? '*' : '!(pictures)'}.test.ts`],
        globalSetup: ['./e2e/browser/build-dashboard.ts'],
      }),
      blackBox({
        name: 'e2e-packages',
        include: ['e2e/packages/*.test.ts'],
        env: executedInMemory,
        globalSetup: [servers],
      }),
    ],
  },
})
