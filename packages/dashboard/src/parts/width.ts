import { type RefObject, useLayoutEffect, useRef, useState } from 'react'

/** Fits the narrowest screen: a drawing that is wider at first would make the page so wide, and be measured at that. */
const firstWidth = 280

/** The width of an element in pixels, so that what is drawn in it keeps the size of its letters. */
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
