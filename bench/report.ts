import type { Machine } from './machine.ts'

/** One side of a comparison; latencies in milliseconds, each the median of the rounds. */
export type Side = { name: string; perSecond?: number; meanMs?: number; p50Ms?: number; p99Ms?: number; KiB?: number }

/** One measured figure. `faults` lists what invalidates it (an unexpected status, a lost client). */
export type Figure = {
  name: string
  value: number
  unit: string
  min?: number
  max?: number
  sides: Side[]
  /** Ratio of every round, to show the spread. */
  rounds?: number[]
  notes: string[]
  faults: string[]
}

type Verdict = 'PASS' | 'MISS' | 'INVALID' | 'INFO'
export type PartReport = { part: string; seconds: number; figures: Figure[]; crash?: string }

/** A figure with a fault is INVALID; one without a target is only information. */
export function verdict(figure: Figure): Verdict {
  if (figure.faults.length > 0 || Number.isNaN(figure.value)) return 'INVALID'
  if (figure.min !== undefined) return figure.value >= figure.min ? 'PASS' : 'MISS'
  if (figure.max !== undefined) return figure.value <= figure.max ? 'PASS' : 'MISS'
  return 'INFO'
}

export function machineText(machine: Machine): string {
  const files = machine.openFiles === Number.MAX_SAFE_INTEGER ? 'unlimited' : machine.openFiles
  const line = [
    `${machine.cores} cores (${machine.processor})`,
    machine.platform,
    `node ${machine.node}`,
    `load ${machine.loadAverage.toFixed(2)}`,
    `open files ${files}`,
    `fdatasync p50 ${machine.fdatasyncP50Ms.toFixed(2)} ms, p99 ${machine.fdatasyncP99Ms.toFixed(2)} ms`,
  ].join(' · ')
  return [line, ...machine.notes.map((note) => `note: ${note}`)].join('\n')
}

export function partText(report: PartReport): string {
  const lines = [`\n${report.part} (${report.seconds.toFixed(0)} s)`]
  if (report.crash !== undefined) lines.push(`  CRASH    ${report.crash}`)
  for (const figure of report.figures) {
    lines.push(
      `  ${verdict(figure).padEnd(8)} ${figure.name.padEnd(34)} ${amount(figure.value)} ${figure.unit}${target(figure)}`,
    )
    for (const side of figure.sides) lines.push(`           ${sideText(side)}`)
    if (figure.rounds !== undefined) lines.push(`           rounds: ${figure.rounds.map(amount).join(' ')}`)
    for (const note of figure.notes) lines.push(`           note: ${note}`)
    for (const fault of figure.faults) lines.push(`           FAULT: ${fault}`)
  }
  return lines.join('\n')
}

function target(figure: Figure): string {
  if (figure.min !== undefined) return `  (target ≥ ${amount(figure.min)})`
  return figure.max === undefined ? '' : `  (target ≤ ${amount(figure.max)})`
}

function sideText(side: Side): string {
  const parts: string[] = []
  if (side.perSecond !== undefined) parts.push(`${amount(side.perSecond)}/s`)
  if (side.meanMs !== undefined) parts.push(`mean ${milliseconds(side.meanMs)}`)
  if (side.p50Ms !== undefined) parts.push(`p50 ${milliseconds(side.p50Ms)}`)
  if (side.p99Ms !== undefined) parts.push(`p99 ${milliseconds(side.p99Ms)}`)
  if (side.KiB !== undefined) parts.push(`${amount(side.KiB)} KiB`)
  return `${side.name.padEnd(16)} ${parts.join(', ')}`
}

function amount(value: number): string {
  if (Number.isNaN(value)) return '?'
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toFixed(2)
}

function milliseconds(value: number): string {
  return Number.isNaN(value) ? '?' : `${value.toFixed(3)} ms`
}
