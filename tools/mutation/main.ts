import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { modules } from './modules.ts'
import { type Figures, figuresOf, killedPercent, minKilledPercent, type Report, survivorsOf, total } from './report.ts'

/** What the tests read. */
const copied = ['packages', 'test-servers', 'tools', 'package.json', 'docs', 'e2e', 'SECURITY.md']

/** Not a dependency: it is a quarter more packages to install, for what few run. */
const version = '10.1.1'

const { values, positionals } = parseArgs({
  options: { share: { type: 'string', default: '1' }, seed: { type: 'string' }, files: { type: 'string' } },
  allowPositionals: true,
})
const names = positionals.length > 0 ? positionals : Object.keys(modules)
const unknown = names.find((name) => !(name in modules))
const share = Number(values.share)
if (unknown || !(share > 0 && share <= 1)) {
  console.error(unknown ? `No module ${unknown}: ${Object.keys(modules).join(', ')}` : 'share: more than 0, at most 1')
  process.exit(2)
}
const seed = values.seed ?? String(randomInt(1_000_000))
const isSample = share < 1
const folder = mkdtempSync(join(tmpdir(), 'mutation-'))

function run(name: string): Report {
  const configuration = {
    mutate: values.files?.split(',') ?? modules[name]!.mutate,
    testRunner: 'vitest',
    vitest: { configFile: 'tools/mutation/vitest.config.ts', related: false },
    plugins: ['@stryker-mutator/vitest-runner', fileURLToPath(new URL('sample.ts', import.meta.url))],
    checkers: isSample ? ['sample'] : [],
    // Stryker mutates a copy, without what the tests do not read.
    ignorePatterns: ['/*', ...copied.map((name) => `!/${name}`), '/packages/dashboard', '/docs/images'],
    tempDirName: join(folder, 'copy'),
    reporters: ['json', 'progress-append-only'],
    jsonReporter: { fileName: join(folder, `${name}.report.json`) },
    // Each test opens a service: more at once makes tests time out, which would count as killed.
    concurrency: 1,
    timeoutMS: 30_000,
    dryRunTimeoutMinutes: 30,
    // Types are stripped, never checked.
    disableTypeChecks: false,
    allowConsoleColors: false,
  }
  const file = join(folder, `${name}.json`)
  writeFileSync(file, JSON.stringify(configuration))
  const packages = ['core', 'vitest-runner'].map((part) => `--package=@stryker-mutator/${part}@${version}`)
  const { status } = spawnSync('npx', ['--yes', ...packages, 'stryker', 'run', file], {
    stdio: 'inherit',
    env: { ...process.env, MUTATION_MODULE: name, MUTATION_SEED: seed, MUTATION_SHARE: String(share) },
  })
  if (status !== 0) throw new Error(`Stryker failed on ${name}`)
  return JSON.parse(readFileSync(configuration.jsonReporter.fileName, 'utf8'))
}

function row(name: string, figures: Figures, seconds: number): string {
  const { killed, timedOut, survived, notCovered } = figures
  const cells = [total(figures), killed, timedOut, survived, notCovered, killedPercent(figures).toFixed(1), seconds]
  return name.padEnd(8) + cells.map((cell) => String(cell).padStart(11)).join('')
}

const rows: string[] = []
const below: string[] = []
try {
  for (const name of names) {
    const start = performance.now()
    const report = run(name)
    const figures = figuresOf(report)
    rows.push(row(name, figures, Math.round((performance.now() - start) / 1000)))
    if (killedPercent(figures) < minKilledPercent) below.push(name)
    console.log(`\nSURVIVORS OF ${name.toUpperCase()}:\n${survivorsOf(report).join('\n')}\n`)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
const heads = ['mutants', 'killed', 'timed out', 'survived', 'not run', 'killed %', 'seconds']
console.log('module'.padEnd(8) + heads.map((head) => head.padStart(11)).join(''))
for (const line of rows) console.log(line)
if (isSample)
  console.log(
    `A random sample of ${Number((share * 100).toPrecision(3))} % of the mutants: --share ${share} --seed ${seed}`,
  )
if (below.length > 0) {
  console.error(`Below ${minKilledPercent} %: ${below.join(', ')}`)
  process.exitCode = 1
}
