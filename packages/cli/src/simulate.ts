import { type Command, InvalidArgumentError, Option } from 'commander'
import { exitCodes } from './exit.ts'
import { onStopSignal } from './signals.ts'
import { createFleet } from './simulate-fleet.ts'
import { findKey, killCommand } from './simulate-key.ts'
import { keepStatusLine, printLines } from './simulate-progress.ts'
import { summaryJson, summaryText } from './simulate-report.ts'

interface SimulateOptions {
  url: string
  key?: string
  agents: number
  duration: number
  speed: number
  seed: number
  json?: boolean
}

/** A number of the command line from `least` to `most`. */
const number = (least: number, most: number, whole: boolean) => (text: string) => {
  const value = Number(text)
  const fits = /^\d+(\.\d+)?$/.test(text) && value >= least && value <= most && (!whole || Number.isInteger(value))
  if (!fits) throw new InvalidArgumentError(`It must be a ${whole ? 'whole ' : ''}number from ${least} to ${most}.`)
  return value
}

const address = (text: string) => {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw new InvalidArgumentError('It must be an address that begins with http:// or https://.')
  }
  return text
}

async function simulate({ url, key: given, agents, duration, speed, seed, json }: SimulateOptions): Promise<void> {
  const found = findKey(url, given)
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
  if (!json) console.log(`A simulated fleet for ${url}: ${agents} agents, ${duration} s, speed ${speed}, seed ${seed}.`)
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
    .description('drive a fleet of demo agents against a running service; all they do is tagged demo')
    .addOption(new Option('--url <url>', 'address of the service').default('http://127.0.0.1:4747').argParser(address))
    .addOption(
      new Option('--key <key>', "an admin key; unless told, that of this machine's data folder").env('WARDLINE_KEY'),
    )
    .option('--agents <number>', 'size of the fleet', number(1, 500, true), 20)
    .option('--duration <seconds>', 'length of the run', number(0.1, 86_400, false), 60)
    .option('--speed <factor>', 'how much faster than life', number(0.1, 1_000, false), 1)
    .option('--seed <number>', 'replays the same story', number(0, 0xffff_ffff, true))
    .option('--json', 'print the summary only, as JSON')
    .action((options) => simulate({ seed: Math.floor(Math.random() * 1_000_000), ...options }))
}
