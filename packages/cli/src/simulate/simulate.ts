import { counted } from '@wardline/text'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { exitCodes } from '../exit.ts'
import { address } from '../service/options.ts'
import { localUrl } from '../service/settings.ts'
import { onStopSignal } from '../signals.ts'
import { findKey, killCommand } from './key.ts'
import { keepStatusLine, printLines } from './progress.ts'
import { summaryJson, summaryText } from './report.ts'

interface SimulateOptions {
  url: string
  key?: string
  agents: number
  duration: number
  speed: number
  seed: number
  json?: boolean
}

/** Creates an option parser for a number from `min` to `max`. */
const number = (min: number, max: number, whole: boolean) => (text: string) => {
  const value = Number(text)
  const isValid = /^\d+(\.\d+)?$/.test(text) && value >= min && value <= max && (!whole || Number.isInteger(value))
  if (!isValid) throw new InvalidArgumentError(`It must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}.`)
  return value
}

async function simulate({ url, key: given, agents, duration, speed, seed, json }: SimulateOptions): Promise<void> {
  const found = findKey(url, given)
  // Imported here because it loads the SDK, which other commands do not need.
  const { createFleet } = await import('./fleet.ts')
  const end = new AbortController()
  onStopSignal(() => end.abort())
  const fleet = createFleet({
    url,
    key: found.key,
    agents,
    seed,
    speed,
    signal: end.signal,
    killLine: (instanceId) => killCommand(url, instanceId, found),
  })
  if (!json)
    console.log(
      `A simulated fleet for ${url}: ${counted(agents, 'agent')}, ${duration} s, speed ${speed}, seed ${seed}.`,
    )
  const show = json ? undefined : process.stdout.isTTY ? keepStatusLine : printLines
  const progress = show?.(process.stdout, fleet.figures)
  const timer = setTimeout(() => end.abort(), duration * 1_000)
  try {
    await fleet.run((line) => progress?.say(line))
  } finally {
    clearTimeout(timer)
    progress?.stop()
  }
  const summary = await fleet.summary()
  console.log(json ? JSON.stringify(summaryJson(summary), null, 2) : `\n${summaryText(summary)}`)
  if (summary.answered === 0) process.exitCode = exitCodes.failed
}

export function addSimulate(program: Command): void {
  program
    .command('simulate')
    .description('run a fleet of demo agents against a running service; all their data is tagged demo')
    .addOption(new Option('--url <url>', 'address of the service').default(localUrl).argParser(address))
    .addOption(
      new Option('--key <key>', 'an admin key; default: the key in the data folder of this machine').env(
        'WARDLINE_KEY',
      ),
    )
    .option('--agents <number>', 'number of agents', number(1, 500, true), 20)
    .option('--duration <seconds>', 'duration of the run', number(0.1, 86_400, false), 60)
    .option('--speed <factor>', 'speed relative to real time', number(0.1, 1_000, false), 1)
    .option('--seed <number>', 'seed of the story; the same seed repeats it', number(0, 0xffff_ffff, true))
    .option('--json', 'print only the summary, as JSON')
    .action((options) => simulate({ seed: Math.floor(Math.random() * 1_000_000), ...options }))
}
