import { type BadgeData, type TrustSummary, unknownBecause } from '@wardline/contract'

/** White text has a contrast above 4.5 on each colour. */
const colors: Record<TrustSummary['risk_tier'], string> = {
  low: '1a7f4b',
  moderate: '5f6b00',
  elevated: '946200',
  high: 'c2410c',
  critical: 'b3125f',
}
const grey = '566069'
const label = 'agent risk'

/**
 * Returns the badge for a summary; undefined when the summary could not be built. A badge contains only fixed words, no
 * configured text.
 */
export function badgeOf(summary: TrustSummary | undefined): BadgeData {
  const isUnknown = summary === undefined || unknownBecause(summary) !== undefined
  return {
    schemaVersion: 1,
    label,
    message: isUnknown ? 'unknown' : `${summary.risk_tier} · ${summary.risk_score} of 100`,
    color: isUnknown ? grey : colors[summary.risk_tier],
    isError: isUnknown,
  }
}

/** Shown when the summary is not published. */
export const offBadge: BadgeData = { schemaVersion: 1, label, message: 'not published', color: grey, isError: true }

/** Width of an average letter at 11 pixels; `textLength` makes every font fit it. */
const letterWidth = 6.4
const padding = 7

/** Renders the badge as an SVG without scripts, links or external resources. */
export function badgeSvg({ label: left, message: right, color }: BadgeData): string {
  const [leftText, rightText] = [left, right].map((text) => Math.round(text.length * letterWidth)) as [number, number]
  const leftWidth = leftText + 2 * padding
  const width = leftWidth + rightText + 2 * padding
  const text = (content: string, x: number, length: number) =>
    `<text x="${x}" y="14" textLength="${length}" lengthAdjust="spacingAndGlyphs">${content}</text>`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="20" role="img" aria-label="${left}: ${right}">`,
    `<title>${left}: ${right}</title>`,
    `<rect width="${leftWidth}" height="20" fill="#2f363d"/>`,
    `<rect x="${leftWidth}" width="${width - leftWidth}" height="20" fill="#${color}"/>`,
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">',
    text(left, padding, leftText),
    text(right, leftWidth + padding, rightText),
    '</g></svg>\n',
  ].join('')
}
