import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type RefObject, useEffect } from 'react'
import css from './virtual-rows.module.css'

interface VirtualRowsProps {
  scroller: RefObject<HTMLDivElement | null>
  count: number
  /** Height of a row in pixels. */
  heightOf(index: number): number
  keyOf(index: number): string | number
  /** Index of the row that the keys act on: it is scrolled into view. */
  at: number
  /** Changes when heights do. */
  heights?: unknown
  role: 'list' | 'rowgroup'
  /** Called with the rows in view. */
  onView?(indexes: readonly number[]): void
  /** Draws a row; `style` places it. */
  row(index: number, style: { transform: string; height: number }): ReactNode
}

/** Any number of rows: only those in view are drawn. The scroller is the caller's. */
export function VirtualRows(props: VirtualRowsProps) {
  const { scroller, count, heightOf, keyOf, at, heights, role, onView, row } = props
  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: heightOf,
    overscan: 10,
    getItemKey: keyOf,
  })
  useEffect(() => {
    if (at > 0) rows.scrollToIndex(at)
  }, [at, rows])
  useEffect(() => rows.measure(), [heights, rows])
  const inView = rows.getVirtualItems()
  const indexes = inView.map(({ index }) => index)
  useEffect(() => onView?.(indexes), [indexes.join(' '), onView])
  return (
    <div role={role} className={css.sheet} style={{ height: rows.getTotalSize() }}>
      {inView.map(({ index, start, size }) => row(index, { transform: `translateY(${start}px)`, height: size }))}
    </div>
  )
}
