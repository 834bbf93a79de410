
(function () {
  history.replaceState(null, "", location.pathname);
  var text = document.body.dataset.message;
  if (!text) { return; }
  function attempt(send) { try { send(); } catch (error) { return; } }
  attempt(function () { window.ReactNativeWebView.postMessage(text); });
  attempt(function () { window.AndroidWallet.onDataCollectionComplete(text); });
  attempt(function () {
    window.webkit.messageHandlers.payDataCollectionComplete.postMessage(text);
  });
  attempt(function () { if (window.opener) { window.opener.postMessage(text, "*"); } });
  attempt(function () { if (window.parent !== window) { window.parent.postMessage(text, "*"); } });
})();
