import { cutText } from '@wardline/text'

interface Screen {
  write(text: string): unknown
  isTTY?: boolean
  columns?: number
}

interface ProgressBar {
  /** Adds `done` finished units of `total`. `label` names the current step. */
  advance(done: number, total: number, label: string): void
  stop(): void
}

const redrawMs = 100
const barWidth = 30
const eraseLine = '\r\u001b[2K'

/** Formats the bar: `[#####-----]  50 %`. */
export function barText(done: number, total: number): string {
  const share = total > 0 ? Math.min(done / total, 1) : 1
  const filled = Math.round(share * barWidth)
  return `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}] ${String(Math.floor(share * 100)).padStart(3)} %`
}

/** Shows a line that is rewritten in place on a terminal. Without a terminal, prints a line for each new label. */
export function startBar(screen: Screen): ProgressBar {
  let done = 0
  let shownAt = Number.NEGATIVE_INFINITY
  let lastLabel = ''
  let drawn = false
  return {
    advance(more, total, label) {
      done += more
      if (!screen.isTTY) {
        if (label !== lastLabel) screen.write(`${label}\n`)
        lastLabel = label
        return
      }
      if (performance.now() - shownAt < redrawMs && label === lastLabel) return
      shownAt = performance.now()
      lastLabel = label
      drawn = true
      screen.write(`${eraseLine}${cutText(`${barText(done, total)}  ${label}`, (screen.columns || 80) - 1)}`)
    },
    stop() {
      if (drawn) screen.write(eraseLine)
      drawn = false
    },
  }
}
