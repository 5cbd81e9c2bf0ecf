import { type RefObject, useLayoutEffect, useRef, useState } from 'react'

/** Fits the narrowest screen. A wider first drawing would widen the page and then be measured at that width. */
const firstWidth = 280

/** Measures an element's width in pixels, so that drawings in it keep their font size. */
export function useWidth<Kind extends HTMLElement>(): [RefObject<Kind | null>, number] {
  const element = useRef<Kind>(null)
  const [width, setWidth] = useState(firstWidth)
  useLayoutEffect(() => {
    const { clientWidth } = element.current!
    const { paddingLeft, paddingRight } = getComputedStyle(element.current!)
    setWidth(Math.floor(clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight)))
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return [element, width]
}
