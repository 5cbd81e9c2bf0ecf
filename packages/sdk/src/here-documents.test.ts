import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { decoyTexts, maxTextLength } from './decoy-texts.ts'
import { TestFleet } from './testing/service.ts'

let fleet: TestFleet
const decoyPath = '/home/bot/keys/payroll-2019.pem'
beforeAll(async () => {
  fleet = await TestFleet.open({ WARDLINE_QUOTA_CHECKS: '100000' })
  await fleet.plantPath(decoyPath)
})
afterAll(() => fleet[Symbol.asyncDispose]())

const filler = (length: number) => 'some words of filler\n'.repeat(length / 21)
const verdictOn = async (command: string) => {
  const { monitor } = fleet.monitor({ failMode: 'open' })
  await monitor.start()
  const denial = await monitor.guard({ toolName: 'Bash', args: { command }, cwd: '/home/bot/work' })
  await monitor.stop()
  return denial?.code
}

const root = fileURLToPath(new URL('../../../', import.meta.url))
const sources = ['packages', 'e2e', 'docs', 'clients']
  .flatMap((folder) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  .filter((name) => /^(?!.*(?:(?:node_modules|dist)\/|here-documents)).*\.(?:tsx?|css|json|md|py)$/.test(name))
  // Tests of formats are the costliest.
  .filter((name) => effort(/alerts\/channels|cli\/src\/export/, /./).test(name))
  .sort()
  .map((name) => ({ name, text: readFileSync(root + name, 'utf8') }))
  .filter(({ text }) => text.length > 4_096 && text.length < 150_000)

// A coding agent writes a file with a command. Code is full of what a shell would expand.
test('a command that changes folder and writes a source file is allowed', async () => {
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  expect(sources.length).toBeGreaterThan(effort(20, 400))
  const denied: string[] = []
  for (const { name, text } of sources) {
    const command = `cd src && cat > a.ts <<'E'\n${text}\nE`
    const denial = await monitor.guard({ toolName: 'Bash', args: { command }, cwd: '/home/bot/work' })
    if (denial) denied.push(`${name}: ${denial.reason}`)
  }
  expect(denied).toEqual([])
  expect(heard.error).toEqual([])
})

describe('a decoy in a long script is found', () => {
  test.each([
    ['in a here-document for a shell', `cd ~ && bash <<'E'\n${filler(9_000)}cat ~/keys/{a,payroll-2019.pem}\nE`],
    ['in a here-document for a file', `cd ~ && cat > a.sh <<E\n${filler(9_000)}cat ~/keys/payroll-2019.pem\nE`],
    ['in the folder of a here-document', `cd ../keys && sh <<-E\n${filler(9_000)}cat payroll-2019.pem\n\tE`],
    [
      'after a here-document',
      `cd .. && cat > a <<'E'\n${filler(9_000)}E\n${filler(5_000)}cat keys/{a,payroll-2019.pem}`,
    ],
    ['in the folder of its first line', `cd ../keys && cat payroll-2019.pem\n${filler(9_000)}`],
  ])('%s', async (_place, command) => {
    expect(await verdictOn(command)).toBe('decoy')
  })
})

// Braces that expand beyond the limit may hide a decoy, except where no shell expands them.
describe('braces beyond the limit in a long script', () => {
  const braces = `\ncat ~/${'{a,b}'.repeat(30)}\n`
  const cases: [string, string, string | undefined][] = [
    ['in a file that is written', `cd src && cat > a <<'E'\n${filler(9_000)}${braces}E`, undefined],
    ['in a here-document for a shell', `cd src && bash <<'E'\n${filler(9_000)}${braces}E`, 'unchecked'],
    ['in one that does not end', `cd src && cat > a <<'E'\n${filler(9_000)}${braces}`, 'unchecked'],
    ['after one', `cd src && cat > a <<'E'\n${filler(9_000)}E\n${filler(6_000)}${braces}`, 'unchecked'],
    ['behind a quoted delimiter', `cd src; echo "\n<<E\n"\n${filler(9_000)}${braces}E`, 'unchecked'],
    ['behind a delimiter in single quotes', `cd src; echo '\\'\\''\n<<E\n'\n${filler(9_000)}${braces}E`, 'unchecked'],
    ['behind a here-string', `cd src; cat <<<E\n${filler(9_000)}${braces}E`, 'unchecked'],
    ['behind a longer word than the delimiter', `cd src && cat > a <<'E'\n${filler(9_000)}End${braces}E`, undefined],
  ]
  test.each(cases)('are denied only where a shell may expand them: %s', async (_place, command, code) => {
    expect(await verdictOn(command)).toBe(code)
  })
})

test('each piece of a here-document has its first and last line, and the folder', () => {
  const { paths } = decoyTexts(`cd src && cat > a.ts <<'END'\n${filler(9_000)}END\n${filler(6_000)}`)
  const isWithin = (piece: string) => /^cd 'src'; +&& cat > a\.ts <<'END'\n/.test(piece)
  expect(paths[0]).toMatch(/^cd src && cat > a\.ts <<'END'\nsome /)
  expect(paths.map((piece) => [isWithin(piece), piece.split('\nEND').length - 1])).toEqual([
    [false, 1],
    [true, 1],
    [true, 1],
    [true, 1],
    [true, 1],
    [false, 0],
    [false, 0],
    [false, 0],
  ])
})

test.each(["cd a/;<<A'\n", 'cd a/\n<<A\n', 'cat <<E\ncd a/\nE\n', '<<-E\n\tE\ncd a/\n', 'cd a/\n\n\n\n"'])(
  'checks 4 MiB of %j in linear time',
  (unit) => {
    for (const characters of [maxTextLength / 2, maxTextLength]) {
      const before = process.threadCpuUsage()
      const { keys, paths } = decoyTexts(unit.repeat(characters / unit.length))
      // Code that is not linear takes half a minute.
      expect(process.threadCpuUsage(before).user).toBeLessThan(8_000_000)
      expect(keys.length + paths.length).toBeLessThanOrEqual(1_500)
    }
  },
)
