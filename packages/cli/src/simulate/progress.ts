import { cutText, sanitize } from '@wardline/text'
import { clockText, type Figures, figuresLine } from './report.ts'

interface Progress {
  say(line: string): void
  stop(): void
}

interface Screen {
  write(text: string): unknown
  columns?: number
}

const redrawMs = 500
/** Without a terminal, the figures are printed rarely so that the story stays readable. */
const figuresEveryMs = 60_000
const eraseLine = '\r\u001b[2K'

function stamped(line: string, seconds: number): string {
  const [first = '', ...others] = line.split('\n').map(sanitize)
  return [`${clockText(seconds)}  ${first}`, ...others.map((other) => `       ${other}`)].join('\n')
}

/** Prints each line immediately and the figures once a minute. For files, pipes and next to a log. */
export function printLines(screen: Screen, figures: () => Figures): Progress {
  const say = (line: string) => void screen.write(`${stamped(line, figures().seconds)}\n`)
  const timer = setInterval(() => say(figuresLine(figures())), figuresEveryMs)
  return { say, stop: () => clearInterval(timer) }
}

/** Prints each line immediately, with a line of figures below that is rewritten in place. For terminals. */
export function keepStatusLine(screen: Screen, figures: () => Figures): Progress {
  const draw = () => {
    const line = `${clockText(figures().seconds)}  ${figuresLine(figures())}`
    screen.write(`${eraseLine}${cutText(line, (screen.columns ?? 80) - 1)}`)
  }
  const timer = setInterval(draw, redrawMs)
  return {
    say(line) {
      screen.write(`${eraseLine}${stamped(line, figures().seconds)}\n`)
      draw()
    },
    stop() {
      clearInterval(timer)
      screen.write(eraseLine)
    },
  }
}
