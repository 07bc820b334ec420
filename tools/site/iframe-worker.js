// Searches a site that is read from disk, where browsers start no Worker: its script runs in a hidden frame of the page instead.
// The search's own script asks for `IFrameWorker` in its parent, and waits for what importScripts returns.
if (location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((done, fail) => {
      const script = frame.contentDocument.createElement("script")
      Object.assign(script, { src: url, onload: done, onerror: fail })
      frame.contentDocument.head.append(script)
    })

  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => load(frame, next)), Promise.resolve())
      this.ready = load(frame, new URL(url, document.baseURI)).then(() => inside)
    }

    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {}
  }
  window.Worker = window.IFrameWorker
}
