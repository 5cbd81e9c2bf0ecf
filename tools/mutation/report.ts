/** The part of Stryker's JSON report that is read here. */
export interface Report {
  files: Record<string, { source: string; mutants: Mutant[] }>
}

interface Place {
  line: number
  column: number
}

interface Mutant {
  status: string
  mutatorName: string
  replacement?: string
  location: { start: Place; end: Place }
}

/** Figures of a module: a mutant that no test runs into counts as one that survived. */
export interface Figures {
  killed: number
  timedOut: number
  survived: number
  notCovered: number
}

export const minKilledPercent = 85

export const total = ({ killed, timedOut, survived, notCovered }: Figures): number =>
  killed + timedOut + survived + notCovered

/** A test that never ends has noticed its mutant. */
export const killedPercent = (figures: Figures): number =>
  (100 * (figures.killed + figures.timedOut)) / Math.max(total(figures), 1)

export function figuresOf({ files }: Report): Figures {
  const mutants = Object.values(files).flatMap((file) => file.mutants)
  const count = (...statuses: string[]) => mutants.filter(({ status }) => statuses.includes(status)).length
  return {
    killed: count('Killed', 'RuntimeError'),
    timedOut: count('Timeout'),
    survived: count('Survived'),
    notCovered: count('NoCoverage'),
  }
}

/** One line for each mutant that no test noticed: where, what it was, what it became. */
export function survivorsOf({ files }: Report): string[] {
  return Object.entries(files).flatMap(([name, { source, mutants }]) =>
    mutants
      .filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
      .map(({ location: { start, end }, replacement = '', mutatorName, status }) => {
        const original = textBetween(source, start, end).trim()
        const note = status === 'NoCoverage' ? ', no test runs it' : ''
        return `${name}:${start.line}:${start.column} ${mutatorName}${note}: ${inLine(original)} → ${inLine(replacement)}`
      }),
  )
}

function textBetween(source: string, start: Place, end: Place): string {
  const lines = source.split('\n').slice(start.line - 1, end.line)
  lines.push(lines.pop()!.slice(0, end.column - 1))
  return lines.join('\n').slice(start.column - 1)
}

function inLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}
