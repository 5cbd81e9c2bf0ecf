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
/** Where nothing can be rewritten, the figures come seldom enough to leave the story readable. */
const figuresEveryMs = 60_000
const eraseLine = '\r\u001b[2K'

function stamped(line: string, seconds: number): string {
  const [first = '', ...others] = line.split('\n').map(sanitize)
  return [`${clockText(seconds)}  ${first}`, ...others.map((other) => `       ${other}`)].join('\n')
}

/** Lines as they come, and the figures once a minute: for files, pipes and beside a log. */
export function printLines(screen: Screen, figures: () => Figures): Progress {
  const say = (line: string) => void screen.write(`${stamped(line, figures().seconds)}\n`)
  const timer = setInterval(() => say(figuresLine(figures())), figuresEveryMs)
  return { say, stop: () => clearInterval(timer) }
}

/** For a terminal: lines as they come, and below them one line of figures that is rewritten. */
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
