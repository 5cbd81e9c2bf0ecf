import { styleText } from 'node:util'
import type { InstanceStatus, Severity, StreamedRow } from '@wardline/contract'
import { plainText } from './terminal-text.ts'

type Style = Parameters<typeof styleText>[0]

const severityStyles: Record<Severity, Style> = {
  info: 'dim',
  warning: 'yellow',
  critical: 'red',
  breach: ['bold', 'inverse', 'red'],
}
const statusStyles: Record<InstanceStatus, Style> = { active: 'green', suspended: 'red', offline: 'yellow' }

/** Coloured where standard output is a terminal and NO_COLOR is not set; text of a server has to be plain already. */
const styled = (style: Style | undefined, text: string): string =>
  style === undefined ? text : styleText(style, text, { stream: process.stdout })

export const severityText = (severity: Severity, width = 0): string =>
  styled(severityStyles[severity], plainText(severity).padEnd(width))

export const statusText = (status: InstanceStatus, width = 0): string =>
  styled(statusStyles[status], plainText(status).padEnd(width))

/** An event as one line: when, how bad, who, what. */
export function eventLine({ created_at, severity, instance_id, source, event_type, description }: StreamedRow): string {
  const time = plainText(created_at).replace(/\.\d+Z$/, 'Z')
  const what = [instance_id ?? source, event_type, description].map(plainText).join('  ')
  return `${time}  ${severityText(severity, 8)}  ${what}`
}
