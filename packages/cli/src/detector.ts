import { type SimulatedKind, simulateDetector } from '@wardline/server'
import { safeJson } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { textTable } from './text-table.ts'

interface SimulateOptions {
  agents: number
  days: number
  seed: number
  json?: boolean
}

const wholeNumber =
  (min: number, max: number) =>
  (text: string): number => {
    const value = Number(text)
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    }
    return value
  }

const heads = ['Normal traffic', 'Warnings', 'Criticals', 'Runaways found', 'After samples']

/** Returns the rows of the table, header first. */
function rowsOf(kinds: readonly SimulatedKind[]): string[][] {
  return [
    heads,
    ...kinds.map(({ kind, warnings, criticals, found, samples }) => [
      kind,
      String(warnings),
      String(criticals),
      `${found} %`,
      String(samples),
    ]),
  ]
}

function simulate({ agents, days, seed, json }: SimulateOptions): void {
  const kinds = simulateDetector({ agents, days, seed })
  if (json) {
    console.log(safeJson({ agents, days, seed, kinds }, 2))
    return
  }
  console.log(textTable(rowsOf(kinds)))
  console.error(
    `-- anomalies in one day of 1,000 agents with one metric, after one day of learning; ${agents} agents for ${days} days, seed ${seed}`,
  )
}

export function addDetector(program: Command): void {
  const detector = program.command('detector').description('try the anomaly detector on simulated traffic')
  detector
    .command('simulate')
    .description('show what the detector reports of normal traffic, and how many runaways it finds')
    .option('--agents <number>', 'agents of each kind, 1 to 1000; default: 40', wholeNumber(1, 1_000), 40)
    .option('--days <number>', 'days of traffic, 2 to 60; default: 8', wholeNumber(2, 60), 8)
    .option('--seed <number>', 'seed of the traffic; default: 14', wholeNumber(0, 1_000_000), 14)
    .option('--json', 'print JSON, also for errors')
    .action(simulate)
}
