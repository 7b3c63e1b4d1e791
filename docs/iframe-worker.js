/* The search runs in a worker, which browsers refuse to start for a page that is read from a folder.
   There an iframe runs the worker's script instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.started = new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => {
            const event = new MessageEvent("message", { data });
            this.dispatchEvent(event);
            if (this.onmessage) this.onmessage(event);
          };
          const script = inside.document.createElement("script");
          script.src = new URL(url, location);
          script.onload = () => resolve(inside);
          inside.document.head.appendChild(script);
        };
      });
      frame.srcdoc = "<!doctype html><title>search</title>";
      document.documentElement.appendChild(frame);
    }
    postMessage(data) {
      this.started.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
