import { expect, it } from 'vitest'
import { barText, startBar } from './progress-bar.ts'

function recording(isTTY: boolean) {
  const written: string[] = []
  return { screen: { isTTY, columns: 60, write: (text: string) => written.push(text) }, written }
}

it('the bar shows the completed share, at most 100 %', () => {
  expect(barText(0, 10)).toBe(`[${'-'.repeat(30)}]   0 %`)
  expect(barText(5, 10)).toBe(`[${'#'.repeat(15)}${'-'.repeat(15)}]  50 %`)
  expect(barText(999, 10)).toBe(`[${'#'.repeat(30)}] 100 %`)
  expect(barText(0, 0)).toContain('100 %')
})

it('the bar is rewritten in place on a terminal, and erased at the end', () => {
  const { screen, written } = recording(true)
  const bar = startBar(screen)
  bar.advance(5, 10, 'Copying events')
  expect(written.join('')).toContain(' 50 %  Copying events')
  bar.stop()
  expect(written.at(-1)).toBe('\r\u001b[2K')
})

it('without a terminal, each new label is printed as a line', () => {
  const { screen, written } = recording(false)
  const bar = startBar(screen)
  bar.advance(5, 10, 'Copying events')
  bar.advance(5, 10, 'Copying events')
  bar.advance(0, 10, 'Comparing events')
  bar.stop()
  expect(written).toEqual(['Copying events\n', 'Comparing events\n'])
})
